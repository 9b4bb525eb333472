#include <forerun/core/apply_sampling.h>
#include <forerun/core/certificate.h>
#include <forerun/core/gaussian.h>
#include <forerun/core/rng_key.h>
#include <forerun/core/token_rule.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "options.h"

namespace forerun::python {
namespace {

using nb::literals::operator""_a;

void require(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument(what);
}

/// Token ids of rows with `vocab` log-weights.
void check_ids(const Ids& ids, std::size_t rows, std::size_t vocab, const std::string& name) {
  require(ids.shape(0) == rows, name + ": " + std::to_string(ids.shape(0)) + " ids for " +
                                    std::to_string(rows) + " rows; give one a row");
  for (std::size_t i = 0; i < rows; ++i) {
    require(ids(i) >= 0 && static_cast<std::size_t>(ids(i)) < vocab,
            name + ": " + std::to_string(ids(i)) + " is no token of " + std::to_string(vocab));
  }
}

void check_same(const Rows& a, const Rows& b, const std::string& names) {
  require(a.shape(0) == b.shape(0) && a.shape(1) == b.shape(1), names + " differ in shape");
}

RngKey at(RngKey key, std::size_t row) {
  key.position += static_cast<std::uint32_t>(row);
  return key;
}

Purpose purpose_from(const std::string& name) {
  if (name == "draft") return Purpose::kDraft;
  if (name == "target") return Purpose::kTarget;
  if (name == "certificate") return Purpose::kCertificate;
  throw UsageError("purpose: no '" + name + "'; use draft, target or certificate");
}

void bind_key(nb::module_& m) {
  nb::class_<RngKey>(m, "Key",
                     "The random numbers of a position: a pure function of seed, request, round "
                     "and position.")
      .def(
          "__init__",
          [](RngKey* self, std::uint64_t seed, std::uint32_t request, std::uint32_t round,
             std::uint32_t position) {
            new (self)
                RngKey{.seed = seed, .request = request, .round = round, .position = position};
          },
          "seed"_a, "request"_a = 0, "round"_a = 0, "position"_a = 0)
      .def_ro("seed", &RngKey::seed)
      .def_ro("request", &RngKey::request)
      .def_ro("round", &RngKey::round)
      .def_ro("position", &RngKey::position)
      .def(
          "uniform",
          [](const RngKey& key, const std::string& purpose, std::size_t rows) {
            std::vector<double> out(rows);
            for (std::size_t i = 0; i < rows; ++i)
              out[i] = at(key, i).uniform(purpose_from(purpose));
            return array(std::move(out), {rows});
          },
          "purpose"_a, "rows"_a,
          "[rows] float64 in [0, 1), of this position and those after it. `purpose`: draft, "
          "target, certificate.")
      .def(
          "normal",
          [](const RngKey& key, const std::string& purpose, std::size_t rows, std::size_t dim) {
            require(
                dim == 0 || rows <= std::numeric_limits<std::size_t>::max() / sizeof(float) / dim,
                "rows * dim: more numbers than there can be");
            std::vector<float> out(rows * dim);
            for (std::size_t i = 0; dim > 0 && i < rows; ++i) {
              at(key, i).fill_normal(purpose_from(purpose), std::span(out).subspan(i * dim, dim));
            }
            return array(std::move(out), {rows, dim});
          },
          "purpose"_a, "rows"_a, "dim"_a, "[rows, dim] float32, standard normal.");
}

using IdArray = nb::ndarray<nb::numpy, std::int32_t>;
using FlagArray = nb::ndarray<nb::numpy, bool>;

/// Bytes for a NumPy array of bool: std::vector<bool> has no elements.
FlagArray flags(const std::vector<std::uint8_t>& values) {
  auto* kept = new bool[values.size() + 1];
  nb::capsule owner(kept, [](void* p) noexcept { delete[] static_cast<bool*>(p); });
  for (std::size_t i = 0; i < values.size(); ++i) kept[i] = values[i] != 0;
  return FlagArray(kept, {values.size()}, owner);
}

TokenDraft draft_of(const std::optional<Rows>& laws, const Ids& drafted, bool sampled) {
  TokenDraft draft;
  draft.tokens.assign(drafted.data(), drafted.data() + drafted.shape(0));
  if (!laws) return draft;
  for (std::size_t i = 0; i < draft.size(); ++i) draft.laws.emplace_back(row(*laws, i));
  draft.origin = sampled ? Origin::kSampled : Origin::kSearched;
  return draft;
}

std::pair<IdArray, FlagArray> couple_rows(const Rows& target, const std::optional<Rows>& draft,
                                          const Ids& drafted, const RngKey& key,
                                          const std::string& rule, bool sampled) {
  const std::size_t n = target.shape(0);
  if (draft) check_same(target, *draft, "target and draft");
  check_ids(drafted, n, target.shape(1), "drafted");
  const TokenRule by(Field<Rule>::from("rule", nb::cast(rule)));
  const TokenDraft all = draft_of(draft, drafted, sampled);
  std::vector<std::int32_t> values(n);
  std::vector<std::uint8_t> accepted(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Coupled<Token> out = by.couple(Categorical(row(target, i)), all, i, at(key, i));
    values[i] = out.value;
    accepted[i] = out.accepted;
  }
  return {array(std::move(values), {n}), flags(accepted)};
}

std::pair<IdArray, std::size_t> resolve_round(const Rows& target, const std::optional<Rows>& draft,
                                              const Ids& drafted, const RngKey& key,
                                              const std::string& rule, bool sampled) {
  const std::size_t k = drafted.shape(0);
  require(target.shape(0) == k + 1,
          std::to_string(k) + " drafts, " + std::to_string(target.shape(0)) +
              " target rows; score k + 1 rows, the last for the bonus token");
  if (draft) {
    require(draft->shape(0) == k && draft->shape(1) == target.shape(1),
            "draft: give [drafts, vocab], a row for every draft");
  }
  check_ids(drafted, k, target.shape(1), "drafted");
  const TokenRule by(Field<Rule>::from("rule", nb::cast(rule)));
  const TokenDraft all = draft_of(draft, drafted, sampled);
  std::vector<TokenLaw> laws;
  for (std::size_t i = 0; i <= k; ++i) laws.emplace_back(Categorical(row(target, i)));
  const auto decided = by.decide(
      all, [&](std::size_t i) -> const TokenLaw& { return laws[i]; },
      [&](std::size_t i) { return at(key, i); });
  std::vector<std::int32_t> outputs;
  std::size_t kept = 0;
  for (bool goes_on = true; goes_on && kept < k;) {
    const Coupled<Token> out = by.couple(laws[kept], all, kept, at(key, kept), decided);
    outputs.push_back(out.value);
    goes_on = out.accepted;
    kept += out.accepted ? 1 : 0;
  }
  if (kept == k) outputs.push_back(by.draw(laws[k], at(key, k)));
  const std::size_t n = outputs.size();
  return {array(std::move(outputs), {n}), kept};
}

void bind_tokens(nb::module_& m) {
  m.def("couple", &couple_rows, "target"_a, "draft"_a.none(), "drafted"_a, "key"_a,
        "rule"_a = "maximal", "sampled"_a = true);
  m.def("resolve", &resolve_round, "target"_a, "draft"_a.none(), "drafted"_a, "key"_a,
        "rule"_a = "maximal", "sampled"_a = true);
  m.def(
      "draw",
      [](const Rows& target, const RngKey& key, const std::string& rule) {
        const TokenRule by(Field<Rule>::from("rule", nb::cast(rule)));
        std::vector<std::int32_t> out(target.shape(0));
        for (std::size_t i = 0; i < out.size(); ++i) {
          out[i] = by.draw(Categorical(row(target, i)), at(key, i));
        }
        const std::size_t n = out.size();
        return array(std::move(out), {n});
      },
      "target"_a, "key"_a, "rule"_a = "maximal");
  m.def(
      "sample_draft",
      [](const Rows& draft, const RngKey& key) {
        std::vector<std::int32_t> out(draft.shape(0));
        for (std::size_t i = 0; i < out.size(); ++i) {
          out[i] = Categorical(row(draft, i)).sample(at(key, i).uniform(Purpose::kDraft));
        }
        const std::size_t n = out.size();
        return array(std::move(out), {n});
      },
      "draft"_a, "key"_a);
  m.def(
      "total_variation",
      [](const Rows& a, const Rows& b) {
        check_same(a, b, "the laws");
        std::vector<double> out(a.shape(0));
        for (std::size_t i = 0; i < out.size(); ++i) {
          out[i] = total_variation(Categorical(row(a, i)), Categorical(row(b, i)));
        }
        const std::size_t n = out.size();
        return array(std::move(out), {n});
      },
      "a"_a, "b"_a);
  m.def(
      "apply_sampling",
      [](const Rows& logits, double temperature, std::uint32_t top_k, double top_p, double min_p) {
        const SamplingParams sampling{
            .temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p};
        const std::size_t n = logits.shape(0), vocab = logits.shape(1);
        std::vector<float> out(logits.data(), logits.data() + n * vocab);
        for (std::size_t i = 0; i < n; ++i) {
          const std::span<float> one = std::span(out).subspan(i * vocab, vocab);
          const TokenLaw law = apply_sampling_(one, sampling);
          if (const auto* point = std::get_if<PointMass>(&law)) {
            std::fill(one.begin(), one.end(), -std::numeric_limits<float>::infinity());
            one[static_cast<std::size_t>(point->token)] = 0.0F;
          }
        }
        return array(std::move(out), {n, vocab});
      },
      "logits"_a, "temperature"_a = 1.0, "top_k"_a = 0, "top_p"_a = 1.0, "min_p"_a = 0.0);
}

void bind_gaussians(nb::module_& m) {
  m.def(
      "reflect",
      [](const Rows& target, const Rows& draft, const Floats& sigma, const Rows& drafted,
         const RngKey& key) {
        check_same(target, draft, "the means of target and draft");
        check_same(target, drafted, "the target's means and the drafted values");
        const std::size_t n = target.shape(0), dim = target.shape(1);
        require(sigma.shape(0) == n, "sigma: give one standard deviation a row");
        std::vector<float> values;
        std::vector<std::uint8_t> accepted(n);
        for (std::size_t i = 0; i < n; ++i) {
          const auto x = row(drafted, i);
          const auto out =
              couple(Gaussian{row(target, i), sigma(i)}, Gaussian{row(draft, i), sigma(i)},
                     {x.begin(), x.end()}, at(key, i));
          values.insert(values.end(), out.value.begin(), out.value.end());
          accepted[i] = out.accepted;
        }
        return std::pair(array(std::move(values), {n, dim}), flags(accepted));
      },
      "target"_a, "draft"_a, "sigma"_a, "drafted"_a, "key"_a);
}

void bind_certificates(nb::module_& m) {
  nb::class_<TokenCertificate>(m, "TokenCertificate")
      .def(nb::init<>())
      .def(
          "add_outputs",
          [](TokenCertificate& c, const Rows& target, const Ids& outputs, const Floats& uniform) {
            check_ids(outputs, target.shape(0), target.shape(1), "outputs");
            require(uniform.shape(0) == outputs.shape(0), "uniform: give one number a row");
            for (std::size_t i = 0; i < outputs.shape(0); ++i) {
              c.add_output(Categorical(row(target, i)), outputs(i), uniform(i));
            }
          },
          "target"_a, "outputs"_a, "uniform"_a)
      .def(
          "add_chosen_drafts",
          [](TokenCertificate& c, const Rows& target, const Ids& drafted, const Ids& outputs) {
            check_ids(drafted, target.shape(0), target.shape(1), "drafted");
            check_ids(outputs, target.shape(0), target.shape(1), "outputs");
            for (std::size_t i = 0; i < outputs.shape(0); ++i) {
              c.add_point_draft(Categorical(row(target, i)), drafted(i), outputs(i));
            }
          },
          "target"_a, "drafted"_a, "outputs"_a)
      .def(
          "add_sampled_drafts",
          [](TokenCertificate& c, const Rows& target, const Rows& draft, const Ids& outputs) {
            check_same(target, draft, "target and draft");
            check_ids(outputs, target.shape(0), target.shape(1), "outputs");
            for (std::size_t i = 0; i < outputs.shape(0); ++i) {
              c.add_sampled_draft(Categorical(row(target, i)), Categorical(row(draft, i)),
                                  outputs(i));
            }
          },
          "target"_a, "draft"_a, "outputs"_a)
      .def("report", &TokenCertificate::report);
  nb::class_<GaussianCertificate>(m, "GaussianCertificate")
      .def(nb::init<>())
      .def(
          "add",
          [](GaussianCertificate& c, const Rows& target, const Floats& sigma, const Rows& values,
             const std::optional<Rows>& draft) {
            check_same(target, values, "means and values");
            if (draft) check_same(target, *draft, "the means of target and draft");
            require(sigma.shape(0) == target.shape(0), "sigma: give one standard deviation a row");
            for (std::size_t i = 0; i < target.shape(0); ++i) {
              c.add(Gaussian{row(target, i), sigma(i)},
                    draft ? row(*draft, i) : std::span<const float>(), row(values, i));
            }
          },
          "target"_a, "sigma"_a, "values"_a, "draft"_a = nb::none())
      .def("report", &GaussianCertificate::report);
}

}  // namespace

void bind_law(nb::module_& m) {
  bind_key(m);
  bind_tokens(m);
  bind_gaussians(m);
  bind_certificates(m);
}

}  // namespace forerun::python

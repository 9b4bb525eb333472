// Start of a run, content of its checkpoint, and resumption.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "forerun/base/json_text.h"
#include "forerun/base/quote.h"
#include "forerun/train/internal/run.h"

namespace forerun::internal {
namespace {

using nlohmann::json;

constexpr const char* kCheckpoint = "checkpoint.safetensors";
constexpr const char* kLog = "log.jsonl";

json held_out_json(const HeldOut& h) {
  json figures = json::array();
  for (const Figure& f : h.figures) figures.push_back({f.name, f.numerator, f.denominator});
  return {{"step", h.step}, {"loss", h.loss}, {"figures", figures}};
}

HeldOut held_out_of(const json& j) {
  HeldOut h{j.at("step").get<std::int64_t>(), j.at("loss").get<double>(), {}};
  for (const json& f : j.at("figures")) {
    h.figures.push_back({f.at(0).get<std::string>(), f.at(1).get<double>(), f.at(2).get<double>()});
  }
  return h;
}

std::string shown(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// The words of one text that the other does not hold.
std::string only_in(const std::vector<std::string>& one, const std::vector<std::string>& other) {
  std::vector<std::string> out;
  for (const std::string& word : one) {
    if (std::find(other.begin(), other.end(), word) == other.end()) out.push_back(word);
  }
  return fmt::format("{}", fmt::join(out, " "));
}

// "KEY BEFORE (now NOW)"; of descriptions, as of an objective, only the words that differ.
std::string difference(const std::string& key, const json& before, const json& now) {
  std::string a = shown(before), b = shown(now);
  const std::vector<std::string> x = words_of(a), y = words_of(b);
  if (x.size() > 1 && y.size() > 1) {
    a = only_in(x, y);
    b = only_in(y, x);
  }
  const auto named = [](const std::string& text) {
    return text.empty() ? "none" : printable(text);
  };
  return fmt::format("{} {} (now {})", key, named(a), named(b));
}

json parsed_provenance(const std::string& text) {
  const Result<json> parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) {
    throw std::invalid_argument("train: the provenance must be a JSON object");
  }
  return *parsed;
}

// Tells other first weights, of another --init say, from these. Not their bits: random numbers may
// differ in the last one between processors.
json first_weights(std::span<const at::Tensor> values) {
  double sum = 0.0, squares = 0.0;
  for (const at::Tensor& t : values) {
    const auto norm = [&](double power) {
      return at::linalg_vector_norm(t.detach(), power, {}, false, at::kDouble).item<double>();
    };
    sum += norm(1);
    squares += std::pow(norm(2), 2);
  }
  return {sum, squares};
}

bool are_first_weights(const json& a, const json& b) {
  constexpr double kBits = 1e-6;
  for (std::size_t i = 0; i < 2; ++i) {
    const double x = a.at(i).get<double>(), y = b.at(i).get<double>();
    if (std::abs(x - y) > kBits * (std::abs(x) + std::abs(y))) return false;
  }
  return true;
}

// Partial files of a killed process: no other process writes here, the log is locked.
void remove_leftovers(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().find(".safetensors.tmp-") == std::string::npos) continue;
    std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace

// Everything that determines the numbers of a run: a resumed one must have the same.
json Run::fixed_options() const {
  const TrainOptions& o = options_;
  return {{"steps", steps_},
          {"batch", o.batch},
          {"learning_rate", o.learning_rate},
          {"warmup", o.warmup},
          {"min_rate", o.min_rate},
          {"muon", o.muon},
          {"beta1", o.beta1},
          {"beta2", o.beta2},
          {"epsilon", o.epsilon},
          {"weight_decay", o.weight_decay},
          {"clip", o.clip},
          {"ema", o.ema},
          {"bf16", o.bf16},
          {"seed", o.seed},
          {"examples", objective_.size()},
          {"held_out_examples", objective_.held_out()},
          {"objective", objective_.fingerprint()}};
}

// Everything that may differ; the last digits then differ.
json Run::surroundings() const {
  json out = {{"ranks", ranks_.size()},
              {"threads", at::get_num_threads()},
              {"micro_batch", options_.micro_batch}};
  if (!device_.is_cpu()) out["device"] = device_.str();
  return out;
}

NamedTensors Run::tensors() const {
  NamedTensors out;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].name;
    out.emplace_back("parameter/" + name, values_[i].detach());
    if (average_.on()) out.emplace_back("average/" + name, average_.values()[i]);
  }
  for (auto& [name, tensor] : optimizer_.state()) out.emplace_back(name, tensor);
  return out;
}

json Run::state_json() const {
  json state = {{"version", 1},
                {"step", state_.step},
                {"tokens", state_.tokens},
                {"seconds", state_.seconds},
                {"loss", progress_.loss},
                {"smoothed_sum", state_.smoothed_sum},
                {"smoothed_weight", state_.smoothed_weight},
                {"log_bytes", state_.log_bytes},
                {"options", fixed_options()},
                {"surroundings", surroundings()}};
  if (!first_weights_.is_null()) state["first_weights"] = first_weights_;
  if (state_.held_out) state["held_out"] = held_out_json(*state_.held_out);
  return state;
}

void Run::take_state(const json& state) {
  state_.step = state.at("step").get<std::int64_t>();
  state_.tokens = state.at("tokens").get<std::int64_t>();
  state_.seconds = seconds_before_ = state.at("seconds").get<double>();
  state_.smoothed_sum = state.at("smoothed_sum").get<double>();
  state_.smoothed_weight = state.at("smoothed_weight").get<double>();
  state_.log_bytes = state.at("log_bytes").get<std::uint64_t>();
  if (state.contains("held_out")) state_.held_out = held_out_of(state.at("held_out"));
  progress_.loss = state.at("loss").get<double>();
  if (state_.smoothed_weight > 0.0) {
    progress_.smoothed_loss = state_.smoothed_sum / state_.smoothed_weight;
  }
  last_checkpoint_ = resumed_from_ = state_.step;
}

void Run::compare(const json& made_with) const {
  const json now = fixed_options();
  std::vector<std::string> differences;
  for (const auto& [key, value] : now.items()) {
    const json before = made_with.value(key, json());
    if (before == value) continue;
    differences.push_back(difference(key, before, value));
  }
  if (differences.empty()) return;
  throw std::invalid_argument(fmt::format(
      "{}: its run was started with {}; go on with the same, or name another folder for a new run",
      (folder_ / kCheckpoint).string(), fmt::join(differences, ", ")));
}

// Checkpoints of earlier versions do not say what their run began with, nor do later ones of it.
void Run::compare_first_weights(const json& state) {
  if (!state.contains("first_weights")) {
    first_weights_ = nullptr;
    return;
  }
  bool same = false;
  try {
    same = are_first_weights(state.at("first_weights"), first_weights_);
  } catch (const json::exception&) {
    same = false;
  }
  if (same) return;
  throw std::invalid_argument(fmt::format(
      "{}: its run was started from other weights (--init, --random or the target); go on with the "
      "same, or name another folder for a new run",
      (folder_ / kCheckpoint).string()));
}

void Run::open_folder() {
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  if (failed) {
    throw FormatError(fmt::format("{}: cannot be made: {}; choose a folder that can be written",
                                  folder_.string(), failed.message()));
  }
  log_.emplace(folder_ / kLog);
  remove_leftovers(folder_);
}

// Rank 0 reads and sends to all ranks: they need not share a disk.
void Run::start() {
  json state;
  ranks_.together([&] {
    const json provenance = parsed_provenance(options_.provenance);
    if (!ranks_.first()) return;
    open_folder();
    first_weights_ = first_weights(values_);
    if (!std::filesystem::exists(folder_ / kCheckpoint)) {
      log_->keep_first(0);
      log_->append({{"run",
                     {{"options", fixed_options()},
                      {"surroundings", surroundings()},
                      {"provenance", provenance}}}});
      return;
    }
    const Checkpoint checkpoint(folder_ / kCheckpoint);
    compare(checkpoint.state().value("options", json::object()));
    checkpoint.restore_(tensors());
    compare_first_weights(checkpoint.state());
    state = checkpoint.state();
  });
  state = json::parse(ranks_.gather(state.dump()).front());
  ranks_.together([&] {
    if (state.is_null()) return;
    try {
      take_state(state);
    } catch (const json::exception& e) {
      throw FormatError(fmt::format("{}: not of this version of forerun ({})",
                                    (folder_ / kCheckpoint).string(), e.what()));
    }
    if (!log_) return;
    if (log_->size() < state_.log_bytes) note("the log lacks lines that the checkpoint knows of");
    log_->keep_first(state_.log_bytes);
    if (state_.step < steps_)
      log_->append({{"resumed", {{"step", state_.step}, {"surroundings", surroundings()}}}});
    if (state.value("surroundings", json()) != surroundings()) {
      note(fmt::format("resumed with {} where it was {}: the losses differ in their last digits",
                       surroundings().dump(),
                       printable(shown(state.value("surroundings", json())))));
    }
  });
  share_state();
  last_step_at_ = last_checkpoint_at_ = now();
}

void Run::share_state() {
  for (const auto& [name, t] : tensors()) {
    ranks_.broadcast_({t.data_ptr<float>(), static_cast<std::size_t>(t.numel())});
  }
}

void Run::save_result() {
  json provenance = {{"step", state_.step},
                     {"steps", steps_},
                     {"tokens", state_.tokens},
                     {"loss", progress_.loss},
                     {"smoothed_loss", progress_.smoothed_loss},
                     {"averaged", average_.on()},
                     {"options", fixed_options()},
                     {"provenance", parsed_provenance(options_.provenance)}};
  if (state_.held_out) {
    provenance["held_out"] = {{"step", state_.held_out->step}, {"loss", state_.held_out->loss}};
  }
  std::vector<at::Tensor> here;
  for (const at::Tensor& t : result()) here.push_back(t.cpu());
  objective_.save(folder_, here, provenance);
}

void Run::checkpoint() {
  ranks_.together([&] {
    if (!log_) return;
    for (const at::Tensor& t : values_) {
      if (!t.isfinite().all().item<bool>()) {
        throw TrainError(fmt::format(
            "step {}: a weight is not finite, and no checkpoint was written; try a lower learning "
            "rate",
            state_.step));
      }
    }
    log_->sync();
    state_.log_bytes = log_->size();
    state_.seconds = seconds_before_ + now();
    write_checkpoint(folder_ / kCheckpoint, tensors(), state_json());
    save_result();
    if (listener_.on_checkpoint) listener_.on_checkpoint(progress_);
  });
  last_checkpoint_ = state_.step;
  last_checkpoint_at_ = now();
}

}  // namespace forerun::internal

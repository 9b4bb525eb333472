#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "forerun/cli/evaluate.h"
#include "forerun/evaluate.h"

namespace forerun::cli {
namespace {

constexpr double kTrust = 2.0;  // standard errors within which sets are called alike

// As many decimals as two digits of the error need.
std::string text(const Estimate& e, bool sign = false) {
  const double magnitude = e.error > 0.0 ? std::floor(std::log10(e.error)) : -3.0;
  const int decimals = static_cast<int>(std::clamp(1.0 - magnitude, 0.0, 6.0));
  return sign ? fmt::format("{:+.{}f} ± {:.{}f}", e.value, decimals, e.error, decimals)
              : fmt::format("{:.{}f} ± {:.{}f}", e.value, decimals, e.error, decimals);
}

// fmt pads by columns on a terminal, "±" counted once.
std::string row(const std::string& name, std::size_t width, const ImageScores& s, bool sign) {
  return fmt::format("{:<{}}  {:<17}  {:<17}  {:<17}  {:<17}  {}\n", name, width,
                     text(s.frechet, sign), text(s.spatial_frechet, sign), text(s.precision, sign),
                     text(s.recall, sign), text(s.agreement, sign));
}

bool alike(const Estimate& difference) {
  return std::abs(difference.value) <= kTrust * difference.error;
}

std::string verdict(const ImageScores& difference, const std::string& what) {
  const auto part = [](const char* name, const Estimate& e) {
    return fmt::format("{} {}", name,
                       alike(e) ? "differs by no more than 2 standard errors"
                                : "differs by MORE than 2 standard errors");
  };
  return fmt::format("{}: {}; {}\n", what, part("cFID", difference.frechet),
                     part("c-sFID", difference.spatial_frechet));
}

std::string by_class(const ImageEvaluation& e, const std::vector<std::string>& names,
                     const std::vector<std::string>& classes) {
  constexpr std::size_t kMost = 20;
  if (classes.size() > kMost) return "";
  std::size_t width = 5;
  for (const std::string& c : classes) width = std::max(width, c.size());
  std::string out = fmt::format("\n{:<{}}  {:<17}", "class", width, "floor");
  for (const std::string& name : names) out += fmt::format("  {:<17}", name);
  out += "  (class agreement)\n";
  for (std::size_t c = 0; c < classes.size(); ++c) {
    out += fmt::format("{:<{}}", classes[c], width);
    if (c < e.floor.agreement_by_class.size()) {
      out += fmt::format("  {:<17}", text(e.floor.agreement_by_class[c]));
    } else {
      out += fmt::format("  {:<17}", "n/a");
    }
    for (const ImageScores& s : e.sets)
      out += fmt::format("  {:<17}", text(s.agreement_by_class[c]));
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }
  return out;
}

nlohmann::json json_of(const Estimate& e) { return {{"value", e.value}, {"error", e.error}}; }

nlohmann::json json_of(const ImageScores& s) {
  nlohmann::json classes = nlohmann::json::array();
  for (const Estimate& e : s.agreement_by_class) classes.push_back(json_of(e));
  return {{"cfid", json_of(s.frechet)},        {"c_sfid", json_of(s.spatial_frechet)},
          {"precision", json_of(s.precision)}, {"recall", json_of(s.recall)},
          {"agreement", json_of(s.agreement)}, {"agreement_by_class", classes}};
}

}  // namespace

std::string evaluation_table(const ImageEvaluation& e, const std::vector<std::string>& names,
                             const ImageReference& reference) {
  std::size_t width = 5;
  for (const std::string& name : names) width = std::max(width, name.size());
  for (std::size_t i = 0; i < e.differences.size(); ++i) {
    width = std::max(width, names[i + 1].size() + 3 + names[0].size());
  }
  std::string out = fmt::format("{} images a set, against {} test images (± standard error)\n\n",
                                e.images, reference.images());
  out += fmt::format("{:<{}}  {:<17}  {:<17}  {:<17}  {:<17}  {}\n", "", width, "cFID", "c-sFID",
                     "precision", "recall", "class agreement");
  if (!e.floor.agreement_by_class.empty()) out += row("floor", width, e.floor, false);
  for (std::size_t i = 0; i < e.sets.size(); ++i) out += row(names[i], width, e.sets[i], false);
  for (std::size_t i = 0; i < e.differences.size(); ++i) {
    out += row(names[i + 1] + " - " + names[0], width, e.differences[i], true);
  }
  out += by_class(e, names, reference.classes());
  if (!e.differences.empty()) out += "\n";
  for (std::size_t i = 0; i < e.differences.size(); ++i) {
    out += verdict(e.differences[i], names[i + 1] + " - " + names[0]);
  }
  out += fmt::format(
      "\nDistances are those of features of a small classifier trained on the same data (weights "
      "{}, "
      "{:.1f} % of the test\nimages put in their class). They are NOT Inception FID and NOT "
      "comparable with published numbers, nor with\nfigures under another classifier. They order "
      "samplers of one model and are blind to small biases: whether a\nsampler is exact is what "
      "`forerun certify` tests. The floor is {} training images: what perfect samples can hope\n"
      "for.\n",
      reference.digest(), 100.0 * e.test_agreement, e.floor_images);
  return out;
}

nlohmann::json to_json(const ImageEvaluation& e, const std::vector<std::string>& names,
                       const ImageReference& reference) {
  nlohmann::json sets = nlohmann::json::array(), differences = nlohmann::json::array();
  for (std::size_t i = 0; i < e.sets.size(); ++i) {
    sets.push_back(json_of(e.sets[i]));
    sets.back()["name"] = names[i];
  }
  for (std::size_t i = 0; i < e.differences.size(); ++i) {
    differences.push_back(json_of(e.differences[i]));
    differences.back()["name"] = names[i + 1] + " - " + names[0];
    differences.back()["cfid_alike"] = alike(e.differences[i].frechet);
    differences.back()["c_sfid_alike"] = alike(e.differences[i].spatial_frechet);
  }
  nlohmann::json floor = json_of(e.floor);
  floor["images"] = e.floor_images;
  return {{"images", e.images},
          {"references", reference.images()},
          {"classifier", reference.digest()},
          {"test_agreement", e.test_agreement},
          {"classes", reference.classes()},
          {"floor", floor},
          {"sets", sets},
          {"differences", differences},
          {"inception_fid", false}};
}

}  // namespace forerun::cli

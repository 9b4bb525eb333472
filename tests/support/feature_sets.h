#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace forerun::testing {

/// [n, d] float64, standard normal.
inline at::Tensor gaussians(std::int64_t n, std::int64_t d, std::uint64_t seed) {
  return at::empty({n, d}, at::kDouble)
      .normal_(0.0, 1.0, at::make_generator<at::CPUGeneratorImpl>(seed));
}

/// Two sets of features, and the results of NumPy and SciPy.
struct FeatureCase {
  at::Tensor references, samples;
  double frechet, precision, recall;
};

inline std::vector<FeatureCase> feature_cases() {
  std::ifstream in(FORERUN_SOURCE_DIR "/tests/data/metrics/values.json");
  const nlohmann::json cases = nlohmann::json::parse(in);
  const auto matrix = [](const nlohmann::json& rows) {
    std::vector<double> values;
    for (const auto& row : rows) {
      for (const auto& x : row) values.push_back(x.get<double>());
    }
    return at::tensor(values, at::kDouble).view({static_cast<std::int64_t>(rows.size()), -1});
  };
  std::vector<FeatureCase> out;
  for (const auto& c : cases) {
    out.push_back({matrix(c["references"]), matrix(c["samples"]), c["frechet"].get<double>(),
                   c["precision"].get<double>(), c["recall"].get<double>()});
  }
  return out;
}

}  // namespace forerun::testing

#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/formats/safetensors.h"
#include "forerun/formats/safetensors_write.h"
#include "tests/support/temp_folder.h"

namespace forerun::testing {

/// The message of f's FormatError.
template <class F>
std::string thrown_by(F&& f) {
  try {
    f();
  } catch (const FormatError& e) {
    return e.what();
  }
  return "did not throw";
}

/// A copy of a model's folder with editable config and tensors.
struct CheckpointCopy {
  TempFolder folder;
  nlohmann::json config;
  std::map<std::string, TensorView> tensors;
  Safetensors file;
  std::string name;  ///< of the file of tensors

  CheckpointCopy(const std::string& from, std::string tensors_file)
      : config(nlohmann::json::parse(read_file(from + "/config.json"))),
        file(load_safetensors(from + "/" + tensors_file)),
        name(std::move(tensors_file)) {
    for (const TensorView& t : file.tensors()) tensors[t.name] = t;
  }
  void write() const {
    folder.write("config.json", config.dump());
    std::vector<TensorView> all;
    for (const auto& [key, t] : tensors) all.push_back(t);
    write_safetensors(folder.path() / name, all);
  }
  /// `load` fails with one line that starts with the folder and contains `part`.
  template <class F>
  void expect_says(const std::string& part, F&& load) const {
    const std::string said = thrown_by(load);
    EXPECT_EQ(said.rfind(folder.path().string(), 0), 0U) << said;
    EXPECT_NE(said.find(part), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
};

}  // namespace forerun::testing

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "forerun/core/tools.h"

namespace forerun::serve {

/// The form of a model's calls whose parameters have tags of their own, and the schemas by which
/// their values are read.
class NativeCalls {
 public:
  /// @param form  not CallForm::kJson
  /// @param tools  whose parameters are sound JSON
  NativeCalls(CallForm form, std::span<const Tool> tools);

  CallForm form() const noexcept { return form_; }
  bool knows(const std::string& tool) const { return schemas_.contains(tool); }
  /// Whether a parameter may be a string, which is written without quotes.
  bool may_be_text(const std::string& tool, const std::string& key) const;
  /// The value that a text stands for: what it spells as JSON where the parameter may be that, else
  /// the text.
  nlohmann::ordered_json value(const std::string& tool, const std::string& key,
                               std::string_view text) const;

 private:
  CallForm form_;
  std::map<std::string, nlohmann::json> schemas_;  // of parameters, by tool
};

/// Reads one such call after the other, while they arrive in pieces.
class NativeCallReader {
 public:
  explicit NativeCallReader(std::shared_ptr<const NativeCalls> calls) : calls_(std::move(calls)) {}

  /// @param text  from behind the call's opening tag on, longer than the last time
  /// @return  where its closing tag begins; npos: not yet. Tags in values end no call
  std::size_t read(std::string_view text);
  /// The call that has ended, {"name": ..., "arguments": {...}}; empty: it is none. Another begins.
  std::optional<std::string> take();

 private:
  enum class Place : std::uint8_t { kName, kNext, kValue, kBroken };

  // Each of these returns whether the text has come past its place.
  bool name(std::string_view text);
  bool next(std::string_view text);
  bool value(std::string_view text);

  std::shared_ptr<const NativeCalls> calls_;
  Place place_ = Place::kName;
  std::size_t at_ = 0;    // read so far
  std::size_t from_ = 0;  // where the value begins
  bool over_ = false;     // no parameter may follow
  std::string name_, key_;
  nlohmann::ordered_json arguments_ = nlohmann::ordered_json::object();
};

}  // namespace forerun::serve

#include "forerun/base/json_text.h"

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "forerun/base/quote.h"

namespace forerun {
namespace {

using nlohmann::json;

/// Builds the document from parser events, and stops at what the library itself accepts: text
/// nested too deeply, too many values, and a duplicate key (the library keeps the last value).
class Builder final : public json::json_sax_t {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return add(json(nullptr)); }
  bool boolean(bool value) override { return add(json(value)); }
  bool number_integer(number_integer_t value) override { return add(json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return add(json(value)); }
  bool string(string_t& value) override { return add(json(std::move(value))); }
  bool binary(binary_t&) override { return fail("binary data in JSON text"); }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [place, fresh] = stack_.back()->get_ref<json::object_t&>().try_emplace(name);
    if (!fresh) {
      return fail(fmt::format("key {} occurs twice in one object; keep one of them", quote(name)));
    }
    slot_ = &place->second;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& e) override {
    std::string_view what = e.what();  // "[json.exception.parse_error.101] parse error at line ..."
    if (const auto end = what.find("] "); end != what.npos) what.remove_prefix(end + 2);
    return fail(fmt::format("not valid JSON: {}", printable(what)));
  }

  Result<json> finish() && {
    if (error_) return *std::move(error_);
    return std::move(root_);
  }

 private:
  bool fail(std::string message) {
    if (!error_) error_ = Error{std::move(message)};
    return false;
  }

  // Null, and an error, where the document has too many values.
  json* put(json value) {
    if (++values_ > limits_.values) {
      fail(
          fmt::format("more than {} values; this is not a file forerun reads: check that it is the "
                      "right one",
                      limits_.values));
      return nullptr;
    }
    if (stack_.empty()) return &(root_ = std::move(value));
    if (stack_.back()->is_array()) {
      auto& items = stack_.back()->get_ref<json::array_t&>();
      return &items.emplace_back(std::move(value));
    }
    return &(*slot_ = std::move(value));
  }

  bool add(json value) { return put(std::move(value)) != nullptr; }

  bool open(json container) {
    if (std::cmp_greater_equal(stack_.size(), limits_.depth)) {
      return fail(
          fmt::format("objects and arrays nested deeper than {}; this is not a file forerun "
                      "reads: check that it is the right one",
                      limits_.depth));
    }
    stack_.push_back(put(std::move(container)));
    return stack_.back() != nullptr;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  JsonLimits limits_;
  std::size_t values_ = 0;
  json root_;
  std::vector<json*> stack_;  // open containers; a parent gains nothing while a child is open
  json* slot_ = nullptr;      // where the value of the key just read goes
  std::optional<Error> error_;
};

Error wrong_type(std::string_view key, const json& value, std::string_view wanted) {
  return {fmt::format("{} is {}, expected {}", quote(key), value.type_name(), wanted)};
}

template <class T>
Result<T> convert(std::string_view key, const json& value);

template <>
Result<std::int64_t> convert(std::string_view key, const json& value) {
  if (value.is_number_unsigned() && !std::in_range<std::int64_t>(value.get<std::uint64_t>())) {
    return Error{fmt::format("{} is {}, more than a 64-bit integer holds", quote(key),
                             value.get<std::uint64_t>())};
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number_float()) {  // Some configs write 1024 as 1024.0.
    const double number = value.get<double>();
    const auto whole = number > -0x1p53 && number < 0x1p53 ? static_cast<std::int64_t>(number) : 0;
    if (static_cast<double>(whole) == number) return whole;
    return Error{fmt::format("{} is {}, expected a whole number", quote(key), number)};
  }
  return wrong_type(key, value, "a whole number");
}

template <>
Result<double> convert(std::string_view key, const json& value) {
  if (!value.is_number()) return wrong_type(key, value, "a number");
  return value.get<double>();
}

template <>
Result<bool> convert(std::string_view key, const json& value) {
  if (!value.is_boolean()) return wrong_type(key, value, "true or false");
  return value.get<bool>();
}

template <>
Result<std::string> convert(std::string_view key, const json& value) {
  if (!value.is_string()) return wrong_type(key, value, "a string");
  return value.get<std::string>();
}

}  // namespace

Result<json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > kMaxJsonBytes) {
    return Error{
        fmt::format("{} bytes of JSON, at most {} are read; check that it is the right file",
                    text.size(), kMaxJsonBytes)};
  }
  if (text.empty()) return Error{"not valid JSON: the text is empty"};
  Builder builder(limits);
  json::sax_parse(text.begin(), text.end(), &builder);
  return std::move(builder).finish();
}

template <class T>
Result<T> json_field(const json& object, std::string_view key) {
  if (!object.is_object()) {
    return Error{fmt::format("{} was looked for in a JSON {}, expected an object", quote(key),
                             object.type_name())};
  }
  const auto found = object.find(key);
  if (found == object.end()) return Error{fmt::format("{} is missing", quote(key))};
  return convert<T>(key, *found);
}

template Result<std::int64_t> json_field(const json&, std::string_view);
template Result<double> json_field(const json&, std::string_view);
template Result<bool> json_field(const json&, std::string_view);
template Result<std::string> json_field(const json&, std::string_view);

}  // namespace forerun

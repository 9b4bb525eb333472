#include "forerun/serve/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "forerun/serve/api_error.h"

namespace forerun::serve {

void check_model(const Fields& fields, const std::string& id,
                 const std::vector<std::string>& aliases) {
  const auto name = fields.text("model");
  if (!name || name->empty() || *name == id) return;
  if (std::find(aliases.begin(), aliases.end(), *name) != aliases.end()) return;
  throw ApiError(
      404,
      fmt::format("there is no model '{}' here; this server has '{}'", name->substr(0, 200), id),
      "model", "model_not_found");
}

std::uint64_t read_seed(const Fields& fields) {
  // A negative seed is told as the large one that it stands for, which may be sent again.
  if (const auto* told = fields.find("seed"); told != nullptr && told->is_number_unsigned()) {
    return told->get<std::uint64_t>();
  }
  if (const auto seed = fields.whole("seed", INT64_MIN, INT64_MAX)) {
    return static_cast<std::uint64_t>(*seed);
  }
  std::random_device random;
  return (std::uint64_t{random()} << 21 ^ random()) & ((std::uint64_t{1} << 53) - 1);
}

}  // namespace forerun::serve

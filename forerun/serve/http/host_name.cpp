#include "forerun/serve/http/host_name.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>

namespace forerun::serve {

std::string host_name(std::string_view field) {
  if (field.starts_with('[')) {
    field = field.substr(1, field.find(']') - 1);
  } else {
    field = field.substr(0, field.find(':'));
  }
  if (field.ends_with('.')) field.remove_suffix(1);
  std::string name(field);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));  // in the C locale: ASCII alone
  });
  return name;
}

bool is_fixed_host(const std::string& name) {
  boost::system::error_code error;
  boost::asio::ip::make_address(name, error);
  return !error || name == "localhost" || name.ends_with(".localhost");
}

}  // namespace forerun::serve

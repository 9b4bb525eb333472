#pragma once

#include <string>
#include <string_view>

namespace forerun::serve {

/// The host that a Host field names (RFC 9110, 7.2): without port, brackets and a final dot, in
/// lower case.
std::string host_name(std::string_view field);

/// Whether a name is none that a name server may resolve as it likes: an IP address, or localhost
/// and what is below it (RFC 6761, 6.3). A page of another site can have its own name resolved to
/// this machine, and a browser then takes this server for that site's (DNS rebinding).
bool is_fixed_host(const std::string& name);

}  // namespace forerun::serve

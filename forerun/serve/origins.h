#pragma once

#include <span>
#include <string>

#include "forerun/serve/http/http.h"

namespace forerun::serve {

/// Whether pages of this origin may send requests from a browser.
/// @param origins  those of --allow-origin; * is all
bool may_ask(std::span<const std::string> origins, const std::string& origin);

/// What lets a browser hand an answer to a page of another origin (Fetch standard, 3.2): fields of
/// its head, each with its line break.
std::string origin_fields(std::span<const std::string> origins, const HttpRequest& head);

/// The answer to what a browser asks before it sends.
HttpResponse preflight();

}  // namespace forerun::serve

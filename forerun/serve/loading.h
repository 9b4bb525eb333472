#pragma once

#include <string>
#include <vector>

#include "forerun/serve/http/http.h"
#include "forerun/serve/page/page.h"

namespace forerun::serve {

/// What answers while the model is read: status 503 to everything, as llama.cpp has it, but for the
/// page, which asks again until the model is there.
/// @param origins  whose pages may read it
HttpHandler loading_handler(std::vector<std::string> origins);

HttpResponse to_response(const PageFile& file);

}  // namespace forerun::serve

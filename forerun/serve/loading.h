#pragma once

#include "forerun/serve/http/http.h"
#include "forerun/serve/page/page.h"

namespace forerun::serve {

/// What answers while the model is read: status 503 to everything, as llama.cpp has it, but for the
/// page, which asks again until the model is there.
HttpHandler loading_handler();

HttpResponse to_response(const PageFile& file);

}  // namespace forerun::serve

#pragma once

#include <string_view>

#include "forerun/serve/generation_request.h"
#include "forerun/serve/served_model.h"

namespace forerun::serve {

/// A request to /v1/responses. It is written as one to /v1/chat/completions and read as that, so
/// that both have the same text.
/// @throws ApiError  400: a field is wrong, or asks for what the server does not do; 404: another
/// model
GenerationRequest parse_response(std::string_view body, const ServedModel& served);

}  // namespace forerun::serve

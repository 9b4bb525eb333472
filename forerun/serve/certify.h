#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "forerun/serve/generation_request.h"

namespace forerun::serve {

/// Makes the first text of a request once more and scores it by plain passes.
/// @param id, given  the answer that was given, and its tokens; "" and none: there was none
/// @returns the certificate, with "same_text": whether this text is the one that was given
nlohmann::json certificate_json(const Model& model, const GenerationRequest& request,
                                const std::string& id, const std::vector<Token>& given,
                                const std::function<bool()>& go_on);

}  // namespace forerun::serve

#include "forerun/serve/path_hint.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace forerun::serve {
namespace {

struct Elsewhere {
  std::string_view paths;  // with a space around each
  std::string_view words;
};

constexpr Elsewhere kElsewhere[] = {
    {" /embeddings /embedding /api/embed /api/embeddings /pooling /score /rerank /reranking "
     "/classify /v2/rerank /v2/embed /api/v1/score ",
     "this server has no embeddings or scores, it writes texts (/v1/chat/completions, "
     "/v1/completions, /v1/responses) and makes images (/v1/images/generations)"},
    {" /completion /generate /generate_stream /infill /api/generate /invocations ",
     "texts to go on with are sent to /v1/completions"},
    {" /api/chat /messages /messages/count_tokens /chat ",
     "conversations are sent to /v1/chat/completions or /v1/responses"},
    {" /slots /load /server_info /get_server_info /get_model_info /model_info /info /api/tags "
     "/api/show /api/ps /api/version /lora-adapters ",
     "/v1/models, /props and /metrics tell of the server"},
    {" /healthz /livez /readyz /health_generate /health/ready /health/live ", "it is /health"},
    {" /docs /redoc /openapi.json /swagger ", "docs/serving.md of forerun describes its paths"},
};

}  // namespace

std::string_view path_hint(std::string_view path) {
  constexpr std::string_view kApi = "/v1";
  if (path == kApi) return "clients add the path, such as /chat/completions, to this address";
  if (path.starts_with("/v1/v1/")) return "the address has /v1 twice";
  if (path.starts_with("/v1/")) path.remove_prefix(kApi.size());
  const std::string padded = " " + std::string(path) + " ";
  const auto* const at =
      std::find_if(std::begin(kElsewhere), std::end(kElsewhere),
                   [&](const Elsewhere& e) { return e.paths.find(padded) != e.paths.npos; });
  return at == std::end(kElsewhere) ? std::string_view() : at->words;
}

}  // namespace forerun::serve

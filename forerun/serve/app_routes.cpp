#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include "forerun/serve/api_error.h"
#include "forerun/serve/app.h"
#include "forerun/serve/certify.h"
#include "forerun/serve/chat_messages.h"
#include "forerun/serve/constraints.h"
#include "forerun/serve/json.h"
#include "forerun/serve/loading.h"
#include "forerun/serve/response_request.h"

namespace forerun::serve {
namespace {

using nlohmann::json;

constexpr std::size_t kMostCertificates = 8;
constexpr std::string_view kApi = "/v1";

std::string base_name(const std::string& path) {
  const std::filesystem::path p(path);
  return (p.has_filename() ? p.filename() : p.parent_path().filename()).string();
}

}  // namespace

const std::vector<App::Route>& App::routes() {
  constexpr bool kOpen = true, kMakes = true;
  static const std::vector<Route> all = {
      {"POST", "/v1/chat/completions", &App::chat, !kOpen, kMakes},
      {"POST", "/v1/completions", &App::completions, !kOpen, kMakes},
      {"POST", "/v1/responses", &App::responses, !kOpen, kMakes},
      {"POST", "/v1/images/generations", &App::images, !kOpen, kMakes},
      {"POST", "/v1/forerun/certify", &App::certify, !kOpen, kMakes},
      {"GET", "/v1/models", &App::models, !kOpen, !kMakes},
      {"POST", "/tokenize", &App::tokenize, !kOpen, !kMakes},
      {"POST", "/detokenize", &App::detokenize, !kOpen, !kMakes},
      {"POST", "/apply-template", &App::apply_template, !kOpen, !kMakes},
      {"GET", "/tokenizer_info", &App::tokenizer_info, !kOpen, !kMakes},
      {"GET", "/metrics", &App::metrics, !kOpen, !kMakes},
      {"GET", "/props", &App::props, !kOpen, !kMakes},
      {"GET", "/health", &App::health, kOpen, !kMakes},
      {"GET", "/version", &App::version, kOpen, !kMakes},
  };
  return all;
}

// A path of the API as the routes have it: clients leave out /v1, or add a slash at the end, as
// they put it together from a base address.
std::string App::plain_path(const std::string& path) {
  std::string out = path;
  if (out.size() > 1 && out.ends_with('/')) out.pop_back();
  if (out == "/v1/health" || out == "/ping") return "/health";  // llama.cpp's, and vLLM's
  const std::string api = std::string(kApi) + out;
  const bool short_form = out.starts_with("/models/") || find_route(api) != nullptr;
  return short_form ? api : out;
}

const App::Route* App::find_route(std::string_view path) {
  if (path.starts_with("/v1/models/")) path = "/v1/models";
  const auto at = std::find_if(routes().begin(), routes().end(),
                               [&](const Route& r) { return r.path == path; });
  return at == routes().end() ? nullptr : &*at;
}

const App::Route* App::route_of(const std::string& path) { return find_route(plain_path(path)); }

void App::handle(HttpRequest request, const Exchange& exchange) {
  const Route* route = route_of(request.path);
  if (route != nullptr) request.path = plain_path(request.path);
  const HttpRequest head{
      .id = request.id, .method = request.method, .path = request.path, .remote = request.remote};
  try {
    if (route == nullptr) return page(std::move(request), exchange);
    (this->*route->handle)(std::move(request), exchange);
  } catch (const ApiError& e) {
    reply(head, exchange, to_response(e));
  } catch (const std::exception& e) {
    reply(head, exchange, to_response(ApiError(500, e.what())));
  }
}

void App::reply(const HttpRequest& request, const Exchange& exchange,
                const HttpResponse& response) {
  exchange.send(response);
  metrics_.answered(request.path.starts_with("/v1/models/") ? "/v1/models" : request.path,
                    response.status);
  log(request, response.status, json::object());
}

void App::chat(HttpRequest request, const Exchange& exchange) {
  make_texts(std::move(request), exchange, Api::kChat);
}

void App::completions(HttpRequest request, const Exchange& exchange) {
  make_texts(std::move(request), exchange, Api::kCompletions);
}

void App::responses(HttpRequest request, const Exchange& exchange) {
  make_texts(std::move(request), exchange, Api::kResponses);
}

// Small work on a body that may be large.
void App::on_worker(HttpRequest request, const Exchange& exchange,
                    std::function<json(const std::string& body)> work) {
  ++parsing_;
  workers_.post([this, request = std::move(request), exchange, work = std::move(work)]() mutable {
    HttpResponse response;
    try {
      response.body = dump(work(request.body));
    } catch (const ApiError& e) {
      response = to_response(e);
    } catch (const std::exception& e) {
      response = to_response(ApiError(500, e.what()));
    }
    http_.post([this, request = std::move(request), exchange, response = std::move(response)] {
      --parsing_;
      reply(request, exchange, response);
    });
  });
}

void App::tokenize(HttpRequest request, const Exchange& exchange) {
  on_worker(std::move(request), exchange, [this](const std::string& body) {
    const json parsed = parse_object(body);
    const Fields fields(parsed);
    std::vector<Token> tokens;
    if (fields.find("messages") != nullptr) {
      tokens = encode(parse_chat_prompt(parsed, body, served_), served_);
    } else {
      // "content" is llama.cpp's name, "prompt" vLLM's.
      const auto content = fields.text("content"), prompt = fields.text("prompt");
      if (!content && !prompt) throw bad_field("content", "is missing: send the text");
      check_text_size(content ? *content : *prompt, served_, content ? "content" : "prompt");
      tokens = served_.model.encode(content ? *content : *prompt);
      if (!fields.flag(content ? "add_special" : "add_special_tokens", !content)) {
        const std::vector<Token> begin = served_.model.encode("");
        if (tokens.size() >= begin.size() &&
            std::equal(begin.begin(), begin.end(), tokens.begin())) {
          tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(begin.size()));
        }
      }
    }
    json out = {
        {"tokens", tokens}, {"count", tokens.size()}, {"max_model_len", served_.model.context()}};
    if (fields.flag("return_token_strs", false)) {
      out["token_strs"] = json::array();
      for (const Token t : tokens) out["token_strs"].push_back(text_of(served_.model, t));
    }
    if (fields.flag("with_pieces", false)) {
      out["tokens"] = json::array();
      for (const Token t : tokens) {
        out["tokens"].push_back({{"id", t}, {"piece", text_of(served_.model, t)}});
      }
    }
    return out;
  });
}

void App::detokenize(HttpRequest request, const Exchange& exchange) {
  on_worker(std::move(request), exchange, [this](const std::string& body) {
    const json parsed = parse_object(body);
    const Fields fields(parsed);
    const json* list = fields.find("tokens");
    if (list == nullptr) throw bad_field("tokens", "is missing: send a list of tokens");
    const std::string text =
        text_with_special(served_.model, tokens_of(*list, "tokens", served_.model.vocab()));
    return json{{"content", text}, {"prompt", text}};
  });
}

void App::apply_template(HttpRequest request, const Exchange& exchange) {
  on_worker(std::move(request), exchange, [this](const std::string& body) {
    const json parsed = parse_object(body);
    const std::vector<Token> tokens = encode(parse_chat_prompt(parsed, body, served_), served_);
    return json{{"prompt", text_with_special(served_.model, tokens)}};
  });
}

void App::tokenizer_info(HttpRequest request, const Exchange& exchange) {
  const TokenizerInfo info = served_.model.tokenizer_info();
  const auto token = [&](std::optional<Token> t) {
    return t ? json{{"id", *t}, {"text", text_of(served_.model, *t)}} : json();
  };
  json end = json::array();
  for (const Token t : info.end) end.push_back(token(t));
  const auto name = [&](std::optional<Token> t) {
    return t ? json(text_of(served_.model, *t)) : json();
  };
  // The first are those of Hugging Face's tokenizer_config.json, which vLLM sends too.
  reply(request, exchange,
        {.body = dump({{"bos_token", name(info.bos)},
                       {"eos_token", name(info.eos)},
                       {"pad_token", name(info.pad)},
                       {"unk_token", name(info.unknown)},
                       {"add_bos_token", info.adds_bos},
                       {"add_eos_token", info.adds_eos},
                       {"chat_template", info.chat_template ? json(*info.chat_template) : json()},
                       {"model_max_length", served_.model.context()},
                       {"vocab_size", info.pieces},
                       {"model_vocab_size", served_.model.vocab()},
                       {"bos", token(info.bos)},
                       {"eos", token(info.eos)},
                       {"end_tokens", end}})});
}

void App::models(HttpRequest request, const Exchange& exchange) {
  const auto model = [&](const std::string& id) {
    return json{
        {"id", id}, {"object", "model"}, {"created", served_.created}, {"owned_by", "forerun"}};
  };
  json all = json::array({model(served_.id)});
  for (const std::string& alias : served_.aliases) all.push_back(model(alias));
  for (json& one : all) one["max_model_len"] = served_.model.context();
  if (images_) all.push_back(model(images_->id));
  constexpr std::string_view kAll = "/v1/models";
  if (request.path == kAll) {
    const json list = {{"object", "list"}, {"data", all}};
    return reply(request, exchange, {.body = dump(list)});
  }
  for (const json& one : all) {
    if (request.path.substr(kAll.size() + 1) != one["id"].get<std::string>()) continue;
    return reply(request, exchange, {.body = dump(one)});
  }
  reply(request, exchange,
        to_response(
            ApiError(404, fmt::format("there is no such model; this server has '{}'", served_.id),
                     "model", "model_not_found")));
}

void App::version(HttpRequest request, const Exchange& exchange) {
  reply(request, exchange, {.body = dump(json{{"version", FORERUN_VERSION}})});
}

void App::health(HttpRequest request, const Exchange& exchange) {
  HttpResponse response{.body = draining_ ? R"({"status":"draining"})" : R"({"status":"ok"})"};
  if (draining_) response.status = 503;
  exchange.send(response);  // not logged: it is asked all the time
  metrics_.answered(request.path, response.status);
}

void App::metrics(HttpRequest request, const Exchange& exchange) {
  metrics_.answered(request.path, 200);
  exchange.send({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                 .body = metrics_.text({.memory = memory_,
                                        .waiting = waiting(),
                                        .connections = http_.connections(),
                                        .draining = draining_},
                                       served_.id)});
}

void App::props(HttpRequest request, const Exchange& exchange) {
  json drafters = json::array();
  for (const Drafter& d : served_.drafters) {
    drafters.push_back(d.name().substr(0, d.name().find(':')));
  }
  const json out = {
      {"model_alias", served_.id},
      {"model_path", base_name(served_.model.path())},
      {"total_slots", options_.max_active},
      {"build_info", "forerun-" FORERUN_VERSION},
      {"default_generation_settings",
       {{"n_ctx", served_.model.context()},
        {"params",
         {{"temperature", served_.sampling.temperature},
          {"top_k", served_.sampling.top_k},
          {"top_p", served_.sampling.top_p},
          {"min_p", served_.sampling.min_p},
          {"repeat_penalty", served_.changes.repetition_penalty},
          {"presence_penalty", served_.changes.presence_penalty},
          {"frequency_penalty", served_.changes.frequency_penalty},
          {"n_predict", served_.max_tokens ? json(*served_.max_tokens) : json(-1)}}}}},
      {"forerun",
       {{"drafters", drafters},
        {"rule", name_of(served_.rule)},
        {"exact",
         is_exact(served_.rule) && std::all_of(served_.drafters.begin(), served_.drafters.end(),
                                               [](const Drafter& d) { return d.keeps_law(); })},
        {"precision", name_of(served_.model.precision())},
        {"max_queue", options_.max_queue},
        {"image_model", images_ ? json(images_->id) : json()},
        {"image_classes", images_ ? json(images_->classes) : json()},
        {"plain_ms_per_token", plain_seconds_ ? json(1e3 * *plain_seconds_) : json()}}}};
  reply(request, exchange, {.body = dump(out)});
}

void App::page(HttpRequest request, const Exchange& exchange) {
  reply(request, exchange, to_response(*page_file(request.path)));
}

// {"id": an answer of this server}, or a request for a text.
void App::certify(HttpRequest request, const Exchange& exchange) {
  constexpr std::size_t kMostIdBytes = 256;
  if (request.body.size() <= kMostIdBytes) {
    const json body = parse_object(request.body);
    if (const auto id = Fields(body).text("id")) {
      const auto at =
          std::find_if(given_.begin(), given_.end(), [&](const Given& g) { return g.id == *id; });
      if (at == given_.end()) {
        throw ApiError(404,
                       "there is no such answer: the server remembers its last 64; send the "
                       "request itself",
                       "id");
      }
      return certify_text(request, exchange, *at);
    }
  }
  auto body = std::make_shared<std::string>(std::move(request.body));
  const HttpRequest head = request;
  parse(
      std::move(request), exchange,
      [this, body, head, exchange]() -> Parsed {
        const json fields = parse_object(*body);
        const bool response = fields.contains("input") && Fields(fields).find("prompt") == nullptr;
        const GenerationRequest wanted = fields.contains("messages") ? parse_chat(*body, served_)
                                         : response ? parse_response(*body, served_)
                                                    : parse_completion(*body, served_);
        return [this, head, exchange, wanted] { certify_text(head, exchange, {"", wanted, {}}); };
      },
      [body] { return may_hold_form(*body); });
}

void App::certify_text(const HttpRequest& request, const Exchange& exchange, const Given& given) {
  if (certificates_ >= kMostCertificates) return reply(request, exchange, queue_full());
  ++certificates_;
  const AskId ask = next_ask_++;
  exchange.on_gone([this, ask] { loop_.cancel(ask); });
  HttpRequest head = request;
  head.body = {};
  loop_.work(ask, [this, given, head, exchange](const std::function<bool()>& go_on) {
    HttpResponse response;
    try {
      response.body =
          dump(certificate_json(served_.model, given.request, given.id, given.tokens, go_on));
    } catch (const std::exception& e) {
      response = to_response(ApiError(500, e.what()));
    }
    http_.post([this, head, exchange, response] {
      --certificates_;
      reply(head, exchange, response);
    });
  });
}

}  // namespace forerun::serve

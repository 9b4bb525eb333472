#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>

#include "forerun/base/available_memory.h"
#include "forerun/base/gguf_parts.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"
#include "forerun/serve/served_model.h"
#include "forerun/serve/server.h"
#include "forerun/text.h"

namespace forerun::cli {
namespace {

namespace fs = std::filesystem;

struct ServeFlags {
  ModelFlags model;
  std::string drafter = "auto", draft_precision = "auto", rule = "shared-noise", reasoning = "auto";
  std::string image_model, image_drafter = "none", vae;
  SamplingParams sampling = {.temperature = 1.0};
  LogitChanges changes;
  std::string generation_config = "auto";
  std::uint32_t image_steps = 0;
  std::uint32_t max_draft = 15;
  bool fixed_draft = false;
  std::string host = "127.0.0.1";
  std::vector<std::string> names, hosts, origins;
  std::uint32_t port = 8080;
  std::string key_file, memory = "auto";
  std::uint32_t max_queue = 256, max_active = 32;
  double timeout = 10.0;
  bool log_prompts = false;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// Where tools/get_model.sh puts the demo's model.
std::string demo_model() {
  if (std::string own = environment("FORERUN_MODEL"); !own.empty()) return own;
  fs::path cache = environment("FORERUN_MODEL_CACHE");
  if (cache.empty() && !environment("XDG_CACHE_HOME").empty()) {
    cache = fs::path(environment("XDG_CACHE_HOME")) / "forerun";
  }
  if (cache.empty()) cache = fs::path(environment("HOME")) / ".cache" / "forerun";
  return (cache / "SmolLM2-135M-Instruct.Q4_1.gguf").string();
}

std::string model_path(const ServeFlags& f) {
  if (!f.model.path.empty()) return f.model.path;
  std::string path = demo_model();
  std::error_code failed;
  if (!fs::exists(path, failed)) {
    throw UsageError(
        fmt::format("no model is named, and the demo's is not at {}: give one with -m, "
                    "or fetch that one with tools/get_model.sh",
                    path));
  }
  return path;
}

// "auto": a quarter of the memory that the process may have.
std::size_t bytes_of(const std::string& size) {
  if (size == "auto") return static_cast<std::size_t>(whole_memory() / 4);
  constexpr std::array<std::pair<std::string_view, double>, 7> kUnits = {{{"", 1.0},
                                                                          {"K", 0x1p10},
                                                                          {"KiB", 0x1p10},
                                                                          {"M", 0x1p20},
                                                                          {"MiB", 0x1p20},
                                                                          {"G", 0x1p30},
                                                                          {"GiB", 0x1p30}}};
  char* end = nullptr;
  const double number = std::strtod(size.c_str(), &end);
  const auto* const unit =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& u) { return u.first == end; });
  const double bytes = unit == kUnits.end() || end == size.c_str() ? -1.0 : number * unit->second;
  if (!(bytes >= 0.0 && bytes < 0x1p60)) {
    throw UsageError(
        fmt::format("--memory {}: give a size such as 512MiB or 8GiB, or 0 for no "
                    "limit",
                    size));
  }
  constexpr double kLeast = 16 * 0x1p20;  // less holds no text of a common model
  if (bytes > 0.0 && bytes < kLeast) {
    throw UsageError(fmt::format("--memory {}: give 16MiB or more, or 0 for no limit", size));
  }
  return static_cast<std::size_t>(bytes);
}

std::string name_of_model(const std::string& path) {
  fs::path p = fs::path(path).lexically_normal();
  if (!p.has_filename()) p = p.parent_path();
  // models--ORG--NAME/snapshots/COMMIT of Hugging Face's cache.
  const std::string cached = p.parent_path().parent_path().filename().string();
  const std::size_t end = cached.rfind("--");
  if (p.parent_path().filename() == "snapshots" && cached.starts_with("models--") && end > 7) {
    return cached.substr(end + 2);
  }
  return without_gguf_ending(p.filename()).string();
}

std::size_t longest_piece(const Model& model) {
  std::size_t longest = 1;
  for (std::size_t t = 0; t < model.vocab(); ++t) {
    longest = std::max(longest, model.piece(static_cast<Token>(t)).size());
  }
  return longest;
}

serve::ServedModel load_served(ServeFlags& f, const Command& command) {
  ModelFlags flags = f.model;
  flags.path = model_path(f);
  const Model model = load_model(flags);
  note_chat(model);
  const RecommendedSampling recommended =
      take_recommended(f.sampling, f.changes, model, command, f.generation_config);
  if (recommended.max_tokens) {
    note(styled(stderr, Style::kDim,
                fmt::format("answers in chats have {} tokens at most where requests do not say, as "
                            "generation_config.json recommends (--generation-config none: without)",
                            *recommended.max_tokens)));
  }
  serve::ServedModel out{.id = f.names.empty() ? name_of_model(flags.path) : f.names.front(),
                         .aliases = {f.names.begin() + (f.names.empty() ? 0 : 1), f.names.end()},
                         .model = model,
                         .drafters = {load_drafter(f.drafter, f.draft_precision, model)},
                         .sampling = f.sampling,
                         .changes = f.changes,
                         .max_tokens = recommended.max_tokens,
                         .rule = *rule_from_name(f.rule),
                         .max_draft = f.max_draft,
                         .fixed_draft = f.fixed_draft,
                         .reasoning = *serve::reasoning_format_from_name(f.reasoning),
                         .created = static_cast<std::int64_t>(std::time(nullptr))};
  for (const char* other : {"auto", "lookup"}) {
    const EndsAtFirst loading;
    if (f.drafter != other) {
      out.drafters.push_back(Drafter::load(other, model, precision_of(f.draft_precision)));
    }
  }
  // Normalizers may shorten a text, but hardly to a quarter.
  out.max_prompt_bytes = 4 * model.context() * longest_piece(model);
  return out;
}

template <class AnyModel>
serve::ServedImages served_images(const ServeFlags& f, const AnyModel& model) {
  note_precision(model.chosen_precision());
  typename AnyModel::Options o;
  if (f.image_steps > 0) o.steps = f.image_steps;
  o.fixed_draft = f.fixed_draft;
  o.vae = f.vae;
  return serve::serve_images(name_of_model(f.image_model), model,
                             ImageDrafter::load(f.image_drafter, model), o);
}

std::optional<serve::ServedImages> load_images(const ServeFlags& f) {
  if (f.image_model.empty()) return std::nullopt;
  if (is_token_image_model(f.image_model)) {
    return served_images(f, TokenImageModel::load(f.image_model, kAutoPrecision));
  }
  return served_images(f,
                       DiffusionModel::load(f.image_model, DitDialect::kReference, kAutoPrecision));
}

// Origins as browsers send them: in lower case, without a path.
std::vector<std::string> checked_origins(std::vector<std::string> origins) {
  for (std::string& origin : origins) {
    std::transform(origin.begin(), origin.end(), origin.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::size_t scheme = origin.find("://");
    const bool whole = scheme != std::string::npos && scheme > 0 && origin.size() > scheme + 3 &&
                       origin.find_first_of("/ ,?#@", scheme + 3) == std::string::npos;
    if (origin != "*" && !whole) {
      throw UsageError(
          fmt::format("--allow-origin {}: give a scheme and a host, as https://chat.example or "
                      "http://localhost:3000, or *",
                      origin));
    }
  }
  return origins;
}

int run_serve(ServeFlags& f, const Command& command) {
  serve::ServeOptions options{.host = f.host,
                              .port = static_cast<std::uint16_t>(f.port),
                              .names = f.hosts,
                              .origins = checked_origins(f.origins),
                              .max_active = f.max_active,
                              .max_queue = f.max_queue,
                              .kv_bytes = bytes_of(f.memory),
                              .log_prompts = f.log_prompts};
  options.http.read_header = f.timeout;
  options.http.read_body = 6.0 * f.timeout;
  options.http.write = 3.0 * f.timeout;
  if (!f.key_file.empty()) options.keys = serve::read_keys(f.key_file);
  serve::Server server(options);  // the address first: it fails at once
  const auto load = [&] {
    const EndsAtFirst loading;
    serve::ServedModel model = load_served(f, command);
    return serve::Served{.model = std::move(model), .images = load_images(f)};
  };
  server.run(load,
             {.stop = [] { return interrupted(); },
              .log = [](const std::string& line) { note(line); },
              .ready =
                  [&](const serve::ServedModel& served) {
                    write_out(fmt::format("{}  {}, {}, drafter {}, rule {}\n", server.url(),
                                          printable(served.id), name_of(served.model.precision()),
                                          printable(served.drafters.front().name()), f.rule));
                  }});
  return 0;
}

}  // namespace

void add_serve(Command& program) {
  auto f = std::make_shared<ServeFlags>();
  Command& command = program.add_command(
      "serve", "Answer OpenAI-compatible requests over HTTP, and show drafting on a page");
  bind_model(command, f->model, Makes::kTexts, false);
  command.group(kModelTitle);
  command.add(
      "--name", f->names, "Clients know the model by it; may be given several times",
      {.old = "--alias,--served-model-name", .shows = "NAME", .standard = "the file's name"});
  command.group("Texts of requests that do not say");
  bind_sampling(command, f->sampling);
  bind_penalties(command, f->changes);
  bind_generation_config(command, f->generation_config);
  command.group(kDraftTitle);
  command.add(
      "-d,--drafter", f->drafter,
      "none, auto, lookup, sam[:FOLDER], recycling, lookahead, draft-model:PATH, "
      "dflash:FOLDER, medusa:FOLDER, tidar:FOLDER[:block=N][:beta=B], "
      "diffuspec:PATH[:OPTION=VALUE...]; sources without a network can be added with a plus. "
      "Requests may choose this one, auto, lookup or none",
      {.shows = "NAME"});
  command.add("--draft-precision", f->draft_precision, "Precision of a drafting model",
              {.one_of = {"auto", "f32", "bf16", "int8", "int4", "file"}, .shows = "NAME"});
  command.add("--rule", f->rule,
              "What decides on drafts; with shared-noise and match a seed has the same text "
              "whatever the drafter and the load",
              {.one_of = {"shared-noise", "match", "maximal", "block"}, .shows = "NAME"});
  command.add("--max-draft", f->max_draft, "Drafted tokens a round at most; 0 = no drafts",
              {.least = 0, .most = 64});
  command.add("--fixed-draft", f->fixed_draft,
              "Always draft that many, instead of as many as pay on this machine");
  command.group("Images");
  command.add("--image-model", f->image_model,
              "Diffusion Transformer, or model of image tokens, for /v1/images/generations",
              {.shows = "PATH"});
  command.add("--image-drafter", f->image_drafter,
              "none, asd, frozen, self, free:FOLDER; token by token: none, self, cspd:FOLDER",
              {.shows = "NAME"});
  command.add("--image-steps", f->image_steps, "Steps of an image; 0 = the model's own number",
              {.least = 0, .most = 1000});
  command.add("--vae", f->vae, "Decoder of a model of latents",
              {.shows = "FOLDER", .standard = "the model's own"});
  command.group("Serving");
  command.add("--host", f->host, "Address to listen on; 0.0.0.0 = all of this machine's",
              {.shows = "IP"});
  command.add("--allow-host", f->hosts,
              "A name by which requests may call the server, as those of a proxy do, where it "
              "listens on this machine alone and needs no key; may be given several times",
              {.shows = "NAME"});
  command.add("--allow-origin", f->origins,
              "A site whose pages may send requests from a browser, as https://chat.example; * = "
              "all; may be given several times",
              {.shows = "ORIGIN"});
  command.add("--port", f->port, "Port, 0 = any that is free", {.least = 0, .most = 65535});
  command.add("--api-key-file", f->key_file,
              "Keys that clients may send, one a line; without it none is needed",
              {.shows = "FILE"});
  command.add("--max-active", f->max_active, "Texts that run at a time",
              {.least = 1, .most = 4096});
  command.add(
      "--reasoning-format", f->reasoning,
      "What becomes of the text that a reasoning model writes between <think> and </think> "
      "before its answer: auto = chats have it as reasoning_content, apart from content, if "
      "the model's chat template has these tags; none = it stays in content; deepseek = "
      "auto. A request's field reasoning_format goes first",
      {.one_of = {"auto", "none", "deepseek"}, .shows = "NAME"});
  command.add("--max-queue", f->max_queue, "Texts that wait; requests beyond them get status 429",
              {.least = 0, .most = 1 << 20});
  command.add("--memory", f->memory,
              "Keys and values at most, such as 8GiB; 0 = no limit, auto = a quarter of the "
              "machine's memory, or of the container's",
              {.shows = "SIZE"});
  command.add("--timeout", f->timeout,
              "Seconds for the head of a request to arrive; six times that for its body, three "
              "times for a client to take what it is sent",
              {.least = 0.1, .most = 3600});
  command.add("--log-prompts", f->log_prompts, "Log lines hold the requests' text");
  command.footer(R"(Examples:
  forerun serve                                    # the demo's model
  forerun serve --image-model models/fashion-mnist/dit --image-drafter free:models/fashion-mnist/free
  forerun serve -m model.gguf --drafter lookup --port 8000 --api-key-file keys
  curl http://127.0.0.1:8080/v1/chat/completions -d '{"messages":[{"role":"user","content":"Hi"}]}'

A browser shows a page at the address. Ctrl-C or SIGTERM lets running answers finish and refuses new
ones; a second one ends at once. One line of JSON for every request goes to standard error.)");
  command.runs([f, &command] { return run_serve(*f, command); });
}

}  // namespace forerun::cli

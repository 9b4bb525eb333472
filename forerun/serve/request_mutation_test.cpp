#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "forerun/image.h"
#include "forerun/serve/api_error.h"
#include "forerun/serve/constraints.h"
#include "forerun/serve/generation_request.h"
#include "forerun/serve/image_request.h"
#include "forerun/serve/json.h"
#include "forerun/serve/reasoning.h"
#include "forerun/serve/response_request.h"
#include "forerun/serve/served_images.h"
#include "forerun/serve/tool_calls.h"
#include "tests/support/chat_model.h"
#include "tests/support/mutate.h"

namespace forerun::serve {
namespace {

using testing::Bytes;
using testing::bytes_of;
using testing::for_each_mutant;
using testing::text_of;

// Bodies that are accepted, which between them have every field that the server reads.
const std::vector<std::string>& chats() {
  static const std::vector<std::string> all = {
      R"({"model":"m","messages":[{"role":"system","content":"a b"},{"role":"user","content":"b c a"}],"max_tokens":7,)"
      R"("seed":3,"temperature":0.7,"top_p":0.9,"top_k":40,"min_p":0.05,"n":2,"stop":["x","\n"],"stream":true,)"
      R"("stream_options":{"include_usage":true},"speculative":{"drafter":"lookup","off":false,"rounds":true}})",
      R"({"messages":[{"role":"developer","content":[{"type":"text","text":"é 😀"}]},{"role":"user","content":null}],)"
      R"("max_completion_tokens":9,"logprobs":true,"top_logprobs":5,"stop":null,"logit_bias":{"1":-100,"17":2.5},)"
      R"("presence_penalty":0.5,"frequency_penalty":-1,"repeat_penalty":1.1,"ignore_eos":true,"best_of":1,"reasoning_format":"none"})",
      R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1","type":"function",)"
      R"("function":{"name":"now","arguments":"{\"at\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"2"}],)"
      R"("tools":[{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":)"
      R"({"at":{"type":"integer"}},"required":["at"]}}}],"tool_choice":"required","parallel_tool_calls":false})",
      R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema","json_schema":)"
      R"({"name":"s","schema":{"type":"object","properties":{"a":{"enum":["x",1,null]},"b":{"type":"string",)"
      R"("minLength":1,"maxLength":3},"c":{"type":"array","items":{"$ref":"#/$defs/d"},"maxItems":2}},)"
      R"("$defs":{"d":{"type":"number","minimum":-2,"exclusiveMaximum":7}},"required":["a"]}}}})"};
  return all;
}

const std::vector<std::string>& completions() {
  static const std::vector<std::string> all = {
      R"({"prompt":"a b a","max_tokens":0,"echo":true,"logprobs":3,"seed":1})",
      R"({"prompt":["a b","c"],"n":3,"stop":"z","temperature":0,"stream":false,"speculative":{"off":true}})",
      R"({"prompt":[5,6,7],"max_tokens":4,"response_format":{"type":"json_object"}})",
      R"({"prompt":[[5,6],[7]],"max_tokens":4,"user":"u","repetition_penalty":1.3})"};
  return all;
}

const std::vector<std::string>& responses() {
  static const std::vector<std::string> all = {
      R"({"model":"m","input":"a b","instructions":"c","max_output_tokens":7,"temperature":0.7,"top_p":0.9,"stream":true,)"
      R"("metadata":{"a":"b"},"user":"u","store":false,"reasoning":{"effort":"medium","summary":"auto"},"seed":1})",
      R"({"input":[{"role":"developer","content":"a"},{"type":"message","role":"user","content":[{"type":"input_text",)"
      R"("text":"b"}]},{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"c"}]},)"
      R"({"type":"function_call","call_id":"1","name":"now","arguments":"{\"at\":1}"},)"
      R"({"type":"function_call_output","call_id":"1","output":"2"}],"tool_choice":{"type":"function","name":"now"},)"
      R"("tools":[{"type":"function","name":"now","strict":true,"parameters":{"type":"object","properties":)"
      R"({"at":{"type":"integer"}},"required":["at"]}}],"parallel_tool_calls":false})",
      R"({"input":[{"role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"b"}]}],)"
      R"("include":["message.output_text.logprobs"],"top_logprobs":2,"text":{"verbosity":"medium","format":{"type":)"
      R"("json_schema","name":"s","schema":{"type":"object","properties":{"a":{"enum":["x",1,null]}}}}}})"};
  return all;
}

constexpr const char* kImages =
    R"({"model":"i","prompt":"3","n":2,"seed":1,"steps":50,"guidance":1.5,"size":"16x16",)"
    R"("response_format":"b64_json","output_format":"png","stream":true,"partial_images":2,)"
    R"("speculative":{"off":true}})";

std::vector<Bytes> seeds_of(const std::vector<std::string>& texts) {
  std::vector<Bytes> out;
  for (const std::string& text : texts) out.push_back(bytes_of(text));
  return out;
}

// Pointers to all values of a document.
void places_of(nlohmann::json& value, std::vector<nlohmann::json*>& out) {
  out.push_back(&value);
  if (!value.is_structured()) return;
  for (nlohmann::json& part : value) places_of(part, out);
}

// Sound JSON with one to three of its values replaced, by what breaks checks or by each other.
std::string altered(const std::string& body, testing::SplitMix64& rng) {
  static const std::vector<nlohmann::json> kValues = {nullptr,
                                                      true,
                                                      false,
                                                      "",
                                                      "a",
                                                      "\u0000",
                                                      0,
                                                      1,
                                                      -1,
                                                      2,
                                                      1.5,
                                                      1e300,
                                                      INT64_MIN,
                                                      INT64_MAX,
                                                      UINT64_MAX,
                                                      nlohmann::json::array(),
                                                      nlohmann::json::object(),
                                                      {{"type", "object"}},
                                                      {{"a", 1}},
                                                      {"a", nullptr},
                                                      std::string(300, 'x')};
  nlohmann::json document = nlohmann::json::parse(body);
  for (std::size_t i = rng.below(3) + 1; i > 0; --i) {
    std::vector<nlohmann::json*> places;
    places_of(document, places);
    if (places.size() < 2) break;
    nlohmann::json& place = *places[1 + rng.below(places.size() - 1)];
    const std::size_t from = rng.below(2 * kValues.size());
    const nlohmann::json value =
        from < kValues.size() ? kValues[from] : *places[1 + rng.below(places.size() - 1)];
    place = value;
  }
  return document.dump();
}

struct Outcomes {
  std::uint64_t accepted = 0, refused = 0;

  // Runs `parse`, which may refuse in the server's own words and in no other way.
  template <class Parse>
  void of(Parse&& parse) {
    try {
      parse();
      ++accepted;
    } catch (const ApiError& e) {
      ++refused;
      EXPECT_TRUE(e.status() == 400 || e.status() == 404) << e.status() << ": " << e.what();
      const nlohmann::json body = nlohmann::json::parse(e.body(), nullptr, false);
      ASSERT_TRUE(body.is_object()) << "an answer that is no JSON: " << e.body();
      EXPECT_FALSE(body.at("error").at("message").get<std::string>().empty());
      EXPECT_LT(e.body().size(), 4096u) << "the answer repeats the request";
    }
  }

  void report(std::uint64_t mutants) const {
    ::testing::Test::RecordProperty("mutants", static_cast<int>(mutants));
    std::printf("%llu mutants, %llu accepted\n", static_cast<unsigned long long>(mutants),
                static_cast<unsigned long long>(accepted));
    EXPECT_GT(accepted, 0u) << "no mutant is accepted: what follows the checks is not tested";
    EXPECT_GT(refused, 0u) << "every mutant is accepted: they are not damaged";
  }
};

// Bytes are damaged in one half of the bodies, values in the other.
template <class Use>
void try_mutants(const std::vector<std::string>& bodies, Use&& use) {
  Outcomes outcomes;
  outcomes.report(for_each_mutant(seeds_of(bodies), [&](const Bytes& mutant, std::uint64_t i) {
    SCOPED_TRACE(i);
    testing::SplitMix64 rng{i};
    const bool values = (i / bodies.size()) % 2 == 1;
    const std::string body =
        values ? altered(bodies[i % bodies.size()], rng) : std::string(text_of(mutant));
    outcomes.of([&] { use(std::string_view(body)); });
  }));
}

class RequestMutation : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TempFolder;
    const std::string folder = testing::make_chat_model(folder_->path() / "chat");
    const std::filesystem::path config = std::filesystem::path(folder) / "config.json";
    const std::string text = testing::read_file(config);
    std::ofstream(config) << testing::replaced(text, R"("max_position_embeddings": 256)",
                                               R"("max_position_embeddings": 2048)");
    const Model model = Model::load(folder, Precision::kF32);
    served_ = new ServedModel{.id = "m",
                              .model = model,
                              .drafters = {Drafter::load("lookup", model), Drafter()},
                              .max_choices = 8};
  }
  static void TearDownTestSuite() {
    delete served_;
    delete folder_;
  }

  // What the engine may rely on.
  static void check(const GenerationRequest& r) {
    ASSERT_GE(r.n, 1u);
    ASSERT_GE(r.choices(), 1u);
    ASSERT_LE(r.choices(), served_->max_choices);
    for (const auto& prompt : r.prompts) {
      ASSERT_FALSE(prompt.empty());
      ASSERT_LE(prompt.size(), served_->model.context());
      for (const Token t : prompt) {
        ASSERT_GE(t, 0);
        ASSERT_LT(static_cast<std::size_t>(t), served_->model.vocab());
      }
    }
    ASSERT_LE(r.options.max_tokens, served_->model.context());
    ASSERT_TRUE(r.options.sampling.temperature >= 0 && r.options.sampling.temperature <= 1000);
    ASSERT_TRUE(r.options.sampling.top_p >= 0 && r.options.sampling.top_p <= 1);
    ASSERT_TRUE(r.options.sampling.min_p >= 0 && r.options.sampling.min_p <= 1);
    for (const auto& [token, bias] : r.options.changes.bias) {
      ASSERT_LT(static_cast<std::size_t>(token), served_->model.vocab());
      ASSERT_TRUE(bias >= -100 && bias <= 100);
    }
    for (const std::string& stop : r.options.stop) ASSERT_FALSE(stop.empty());
  }

  static testing::TempFolder* folder_;
  static ServedModel* served_;
};

testing::TempFolder* RequestMutation::folder_ = nullptr;
ServedModel* RequestMutation::served_ = nullptr;

TEST_F(RequestMutation, RequestsThatAreNotDamagedAreAccepted) {
  for (const std::string& body : chats()) {
    SCOPED_TRACE(body);
    EXPECT_NO_THROW(check(parse_chat(body, *served_)));
  }
  for (const std::string& body : completions()) {
    SCOPED_TRACE(body);
    EXPECT_NO_THROW(check(parse_completion(body, *served_)));
  }
  for (const std::string& body : responses()) {
    SCOPED_TRACE(body);
    EXPECT_NO_THROW(check(parse_response(body, *served_)));
  }
}

TEST_F(RequestMutation, RequestsThatAreHeldToAFormAreToldBeforeTheyAreRead) {
  const std::vector<std::string> held = {
      R"("response_format":{"type":"json_object"})",
      R"("json_schema":{"type":"null"})",
      R"("guided_json":{"type":"null"})",
      R"("guided_choice":["a"])",
      R"("guided_regex":"a")",
      R"("regex":"a")",
      R"("structured_outputs":{"regex":"a"})",
      R"("tools":[{"type":"function","function":{"name":"a"}}])"};
  for (const std::string& form : held) {
    SCOPED_TRACE(form);
    const std::string body = R"({"messages":[{"role":"user","content":"a"}],)" + form + "}";
    EXPECT_NE(parse_chat(body, *served_).options.changes.grammar, nullptr);
    EXPECT_TRUE(may_hold_form(body));
  }
  for (const std::string& body : responses()) {
    const bool form = parse_response(body, *served_).options.changes.grammar != nullptr;
    EXPECT_EQ(may_hold_form(body), form) << body;
  }
  EXPECT_FALSE(may_hold_form(chats().front()));
}

TEST_F(RequestMutation, DamagedResponsesAreRefusedOrSound) {
  try_mutants(responses(), [&](std::string_view body) { check(parse_response(body, *served_)); });
}

TEST_F(RequestMutation, DamagedChatsAreRefusedOrSound) {
  try_mutants(chats(), [&](std::string_view body) { check(parse_chat(body, *served_)); });
}

TEST_F(RequestMutation, DamagedCompletionsAreRefusedOrSound) {
  try_mutants(completions(),
              [&](std::string_view body) { check(parse_completion(body, *served_)); });
}

TEST_F(RequestMutation, DamagedRequestsForImagesAreRefusedOrSound) {
  const DiffusionModel dit =
      DiffusionModel::load(FORERUN_SOURCE_DIR "/tests/data/dit/reference_pixel",
                           DitDialect::kReference, Precision::kF32);
  const ServedImages images = serve_images("i", dit, ImageDrafter::load("asd", dit), {});
  try_mutants({kImages}, [&](std::string_view body) {
    const ImageRequest r = parse_images(parse_object(body), images);
    ASSERT_TRUE(r.n >= 1 && r.n <= 10);
    ASSERT_TRUE(r.wish.label >= 0 && r.wish.label < images.classes);
    ASSERT_LE(r.partial_images, 20u);
  });
}

TEST_F(RequestMutation, DamagedReasoningIsTheSameWhateverThePieces) {
  const std::vector<Bytes> seeds = seeds_of(
      {"<think>\na b\n</think>\n\nc d", "a </think> b", " \n<think></think><think>x</think>",
       "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
       " to=functions.f<|channel|>commentary<|message|>{}<|call|>"});
  for_each_mutant(seeds, [&](const Bytes& mutant, std::uint64_t i) {
    SCOPED_TRACE(i);
    const std::string_view text = text_of(mutant);
    testing::SplitMix64 rng{i};
    constexpr ReasoningStart kStarts[] = {ReasoningStart::kBefore, ReasoningStart::kInside,
                                          ReasoningStart::kChannels};
    const ReasoningStart start = kStarts[rng.below(3)];
    const bool keeps_all = rng.below(2) == 0;
    ReasoningReader whole(start, keeps_all), pieces(start, keeps_all);
    whole.push(text);
    whole.finish();
    std::string reasoning, content;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = std::min<std::size_t>(text.size() - at, 1 + rng.below(12));
      pieces.push(text.substr(at, n));
      reasoning += pieces.take_reasoning();
      content += pieces.take_content();
      at += n;
    }
    pieces.finish();
    EXPECT_EQ(pieces.end(), whole.end());
    EXPECT_EQ(reasoning + pieces.take_reasoning(), whole.take_reasoning());
    EXPECT_EQ(content + pieces.take_content(), whole.take_content());
  });
}

// The text of an answer, as damaged as a model may make it, in pieces of any length.
void expect_same_calls(const std::string& seed, std::shared_ptr<const NativeCalls> native) {
  for_each_mutant(seeds_of({seed}), [&](const Bytes& mutant, std::uint64_t i) {
    SCOPED_TRACE(i);
    const std::string_view text = text_of(mutant);
    ToolCallReader whole(false, native), pieces(false, native);
    whole.push(text);
    whole.finish();
    testing::SplitMix64 rng{i};
    std::string content;
    std::vector<std::string> calls;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = std::min<std::size_t>(text.size() - at, 1 + rng.below(12));
      pieces.push(text.substr(at, n));
      content += pieces.take_content();
      for (std::string& call : pieces.take_calls()) calls.push_back(std::move(call));
      at += n;
    }
    pieces.finish();
    content += pieces.take_content();
    EXPECT_EQ(content, whole.take_content());
    EXPECT_EQ(calls, whole.take_calls());
  });
}

TEST_F(RequestMutation, DamagedCallsOfToolsLoseNoTextWhateverThePieces) {
  expect_same_calls(
      "a <tool_call>\n{\"name\": \"now\", \"arguments\": {\"at\": 1}}\n</tool_call>\n<tool_call>"
      "\n{\"name\": \"b\", \"arguments\": {}}\n</tool_call>",
      nullptr);
}

TEST_F(RequestMutation, DamagedCallsWithTaggedParametersLoseNoTextWhateverThePieces) {
  const std::vector<Tool> tools = {{"now", R"({"properties": {"l": {"type": "array"}}})"}};
  expect_same_calls(
      "a <tool_call>\n<function=now>\n<parameter=l>\n[\"\\\"\"]\n</parameter>\n<parameter=x>\ny\n"
      "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</"
      "tool_call>",
      std::make_shared<const NativeCalls>(CallForm::kParameters, tools));
  expect_same_calls(
      "a "
      "<tool_call>now\n<arg_key>l</arg_key>\n<arg_value>[\"</arg_value>\"]</arg_value>\n<arg_key>x"
      "</arg_key>\n<arg_value>y</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
      std::make_shared<const NativeCalls>(CallForm::kKeysValues, tools));
}

}  // namespace
}  // namespace forerun::serve

#include <forerun/model.h>
#include <forerun/text.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "bindings.h"
#include "interrupts.h"
#include "lock.h"
#include "members.h"
#include "path.h"
#include "pickle.h"
#include "precision.h"

namespace forerun::python {
namespace {

using nb::literals::operator""_a;

// JSON of a value; of None none.
std::string json_of(const nb::handle& value) {
  if (value.is_none()) return {};
  return nb::cast<std::string>(
      nb::module_::import_("forerun._json").attr("json_of")(value, "ensure_ascii"_a = false));
}

std::string text_in_turn(const nb::handle& value) {
  std::string out;
  if (nb::try_cast(value, out)) return out;
  throw nb::type_error(
      "a turn is (role, content) or a mapping with both: the role a string, the content a string "
      "or a list of parts, as {\"type\": \"text\", \"text\": \"...\"}");
}

// The content of a turn: a string, or parts as OpenAI's API has them, of which text is read.
std::string content_of(const nb::handle& content) {
  if (!nb::isinstance<nb::list>(content) && !nb::isinstance<nb::tuple>(content)) {
    return text_in_turn(content);
  }
  std::string out;
  for (const nb::handle part : content) {
    if (!nb::hasattr(part, "keys")) text_in_turn(nb::none());
    const nb::object fields = nb::module_::import_("builtins").attr("dict")(part);
    const nb::object type = fields.attr("get")("type", "text");
    if (!type.equal(nb::str("text"))) {
      throw UsageError("content: holds a part of type " + nb::cast<std::string>(nb::repr(type)) +
                       "; the model reads text alone");
    }
    out += text_in_turn(fields.attr("get")("text"));
  }
  return out;
}

// A turn of a conversation: (role, content), or a mapping of both and more.
Message message_of(const nb::handle& turn) {
  if (!nb::hasattr(turn, "keys")) {
    std::pair<nb::object, nb::object> both;
    if (!nb::try_cast(turn, both)) text_in_turn(nb::none());
    return {text_in_turn(both.first), content_of(both.second)};
  }
  nb::object fields = nb::module_::import_("builtins").attr("dict")(turn);
  const nb::object role = fields.attr("pop")("role", nb::none()),
                   content = fields.attr("pop")("content", "");
  Message out{.role = text_in_turn(role), .content = {}};
  if (!content.is_none()) out.content = content_of(content);  // of a turn that only calls tools
  if (nb::len(fields) > 0) out.fields = json_of(fields);
  return out;
}

void bind_language_model(nb::module_& m) {
  nb::class_<Model>(m, "Model", "A language model with its tokenizer.")
      .def(
          "__init__",
          [](Model* self, const FilePath& path, const std::string& precision) {
            const Unlocked unlocked;
            new (self) Model(Model::load(path.bytes, precision_request(precision)));
          },
          "path"_a, "precision"_a = "auto",
          "Loads a GGUF file or a Hugging Face folder, or \"org/name\" from Hugging Face's cache "
          "on this "
          "machine. `precision`: auto, int8, int4, bf16, f32, "
          "file; auto is int4 for GGUF files with half of their weights in 4 bits, else int8. "
          "A run of distill or train resumes in the precision that it "
          "began in; those of the command are in int8.")
      .def("encode", &Model::encode, "text"_a, nb::call_guard<Unlocked>(),
           "The tokens of a text, with a beginning-of-sequence token if the model has one.")
      .def(
          "encode_chat",
          [](const Model& model, const nb::sequence& turns, const nb::object& tools,
             const nb::object& variables, bool add_generation_prompt) {
            std::vector<Message> messages;
            for (const nb::handle turn : turns) messages.push_back(message_of(turn));
            const ChatInput input{.tools = json_of(tools),
                                  .variables = json_of(variables),
                                  .add_generation_prompt = add_generation_prompt};
            const Unlocked unlocked;
            return model.encode_chat(messages, input);
          },
          "messages"_a, "tools"_a = nb::none(), "variables"_a = nb::none(),
          "add_generation_prompt"_a = true,
          "The tokens of a conversation, ready for the next answer.\n\n"
          "A turn is (role, content), or a mapping of role, content and what else the model's "
          "template reads, such as tool_calls. The content is a string or a list of text parts. "
          "`tools`: a list of tools as OpenAI's API has them. Arguments of tool_calls are "
          "mappings; "
          "templates of Qwen3-Coder, Qwen3.5 and GLM-4.5 get those that are JSON texts as mappings "
          "too. "
          "`variables`: further variables of the template, by name.")
      .def(
          "decode",
          [](const Model& model, const std::vector<Token>& tokens) { return model.decode(tokens); },
          "tokens"_a)
      .def(
          "piece",
          [](const Model& model, Token token) {
            const std::string_view bytes = model.piece(token);
            return nb::bytes(bytes.data(), bytes.size());
          },
          "token"_a, "The bytes that a token stands for, perhaps a part of a character.")
      .def(
          "logits",
          [](const Model& model, const std::vector<Token>& tokens) {
            Interrupts interrupts;
            Logits out = interrupts.during(
                [&] { return logits(model, tokens, [&] { return interrupts.go_on(); }); });
            return array(std::move(out.values), {out.rows, out.vocab});
          },
          "tokens"_a, "Scores of every position: [tokens, vocab] float32; row i predicts i + 1.")
      .def(
          "score",
          [](const Model& model, const std::vector<Token>& tokens, std::size_t top) {
            Interrupts interrupts;
            return interrupts.during(
                [&] { return score(model, tokens, top, [&] { return interrupts.go_on(); }); });
          },
          "tokens"_a, "top"_a = 0,
          "Log-probabilities (nats, temperature 1) of all tokens but the first.")
      .def("hash", &Model::hash, nb::call_guard<Unlocked>(),
           "A hash of the weights in the model's file.")
      .def_prop_ro(
          "recommended_sampling",
          [](const Model& model) {
            const RecommendedSampling r = recommended_sampling(model.path());
            nb::dict out;
            if (r.temperature) out["temperature"] = *r.temperature;
            if (r.top_k) out["top_k"] = *r.top_k;
            if (r.top_p) out["top_p"] = *r.top_p;
            if (r.min_p) out["min_p"] = *r.min_p;
            if (r.repetition_penalty) out["repetition_penalty"] = *r.repetition_penalty;
            return out;
          },
          nb::sig("def recommended_sampling(self) -> dict[str, typing.Any]"),
          "What the model's publisher recommends, in its generation_config.json or GGUF file, as "
          "options: generate(model, prompt, **model.recommended_sampling). Nothing takes it by "
          "itself.")
      .def_prop_ro("path", [](const Model& model) { return FilePath{model.path()}; })
      .def_prop_ro("precision",
                   [](const Model& model) { return std::string(name_of(model.precision())); })
      .def_prop_ro("vocab", &Model::vocab)
      .def_prop_ro("context", &Model::context)
      .def("__repr__", [](const Model& model) {
        return nb::str("Model({!r}, precision={!r})")
            .format(FilePath{model.path()}, std::string(name_of(model.precision())));
      });
}

}  // namespace

void bind_model(nb::module_& m) {
  nb::class_<TokenScore> score(m, "TokenScore", "A token of a text, scored after those before it.");
  score.def_ro("token", &TokenScore::token)
      .def_ro("log_probability", &TokenScore::log_probability, "nats")
      .def_ro("top", &TokenScore::top, "the likeliest tokens there, in falling order")
      .def("__repr__", [](const TokenScore& s) {
        return nb::str("TokenScore(token={}, log_probability={:.4f})")
            .format(s.token, s.log_probability);
      });
  def_pickle(score);
  bind_language_model(m);
  nb::class_<Drafter>(m, "Drafter",
                      "A drafter of tokens; it keeps what it learns about costs and acceptance.")
      .def(
          "__init__",
          [](Drafter* self, const std::string& name, const Model& target,
             const std::string& precision) {
            const Unlocked unlocked;
            new (self) Drafter(Drafter::load(name, target, precision_request(precision)));
          },
          "name"_a, "target"_a, "precision"_a = "auto",
          "none, auto, lookup, recycling, sam[:FOLDER], draft-model:PATH, dflash:PATH, "
          "medusa:PATH, and "
          "sums of them (dflash:PATH+lookup). auto is lookup+recycling, and answers of `forerun "
          "distill` "
          "beside the model. `precision` is that of a drafting model.")
      .def_prop_ro("name", &Drafter::name)
      .def_prop_ro("parts", &Drafter::parts, "What it drafts from: those that auto stands for.")
      .def_prop_ro("left_out", &Drafter::left_out,
                   "What lies beside the model and auto leaves out, and why; empty: nothing.")
      .def("fresh", &Drafter::fresh, "The same drafter without its statistics.")
      .def("__repr__", [](const Drafter& d) { return "Drafter('" + d.name() + "')"; });
}

}  // namespace forerun::python

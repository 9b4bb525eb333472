#include <forerun/engine.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

#include "arrays.h"
#include "bindings.h"
#include "image_options.h"
#include "lock.h"
#include "members.h"
#include "pickle.h"
#include "text_options.h"

namespace forerun::python {
namespace {

using nb::literals::operator""_a;

/// An image's values as an array.
struct ImageEvent {
  RequestId id = 0;
  std::size_t step = 0;
  bool complete = false;
  nb::ndarray<nb::numpy, float> values;
};
struct Preview : ImageEvent {};
struct FinishedImage : ImageEvent {
  RunStatistics statistics;
  std::uint64_t seed = 0;
};
/// A text with what its request says of it.
struct FinishedText {
  RequestId id = 0;
  Generated result;
};

auto members(Preview& e) { return std::tie(e.id, e.step, e.complete, e.values); }
auto members(FinishedImage& e) {
  return std::tie(e.id, e.step, e.complete, e.values, e.statistics, e.seed);
}
auto members(FinishedText& e) { return std::tie(e.id, e.result); }

/// What the events of a request do not tell.
struct Request {
  std::uint64_t seed = 0;
  Rule rule = Rule::kMaximal;
  bool exact = true;
  std::int64_t channels = 0, side = 0;  // of an image's values
};

/// The library's engine for any thread: calls take turns, without the interpreter's lock.
class PythonEngine {
 public:
  explicit PythonEngine(const EngineOptions& options) : engine_(options) {}

  template <class Submit>
  RequestId submit(const Request& request, Submit&& submit) {
    const Unlocked unlocked;
    const std::lock_guard turn(mutex_);
    const RequestId id = submit(engine_);
    requests_[id] = request;
    return id;
  }

  nb::list step() {
    std::vector<std::pair<Event, Request>> events;
    {
      const Unlocked unlocked;
      const std::lock_guard turn(mutex_);
      for (Event& event : engine_.step()) {
        const Request request = request_of(event);
        events.emplace_back(std::move(event), request);
      }
    }
    nb::list out;
    for (auto& [event, request] : events) {
      std::visit([&](auto& e) { out.append(to_python(std::move(e), request)); }, event);
    }
    return out;
  }

  void cancel(RequestId id) {
    const Unlocked unlocked;
    const std::lock_guard turn(mutex_);
    engine_.cancel(id);
  }
  bool busy() {
    const Unlocked unlocked;
    const std::lock_guard turn(mutex_);
    return engine_.busy();
  }
  std::size_t used(const Model& model) {
    const Unlocked unlocked;
    const std::lock_guard turn(mutex_);
    return engine_.memory(model).used;
  }

 private:
  Request request_of(const Event& event) {
    const RequestId id = std::visit([](const auto& e) { return e.id; }, event);
    const auto found = requests_.find(id);
    if (found == requests_.end()) return {};
    const Request request = found->second;
    if (std::holds_alternative<TextFinished>(event) ||
        std::holds_alternative<ImageFinished>(event) || std::holds_alternative<Failed>(event)) {
      requests_.erase(found);
    }
    return request;
  }

  static nb::ndarray<nb::numpy, float> values(std::vector<float> v, const Request& request) {
    const auto side = static_cast<std::size_t>(request.side);
    return array(std::move(v), {static_cast<std::size_t>(request.channels), side, side});
  }
  template <class E>
  static nb::object to_python(E event, const Request& request) {
    if constexpr (std::is_same_v<E, ImagePreview>) {
      return nb::cast(
          Preview{{event.id, event.step, false, values(std::move(event.values), request)}});
    } else if constexpr (std::is_same_v<E, ImageFinished>) {
      return nb::cast(FinishedImage{
          {event.id, event.steps, event.complete, values(std::move(event.values), request)},
          std::move(event.statistics),
          request.seed});
    } else if constexpr (std::is_same_v<E, TextFinished>) {
      Generated text;
      static_cast<TextResult&>(text) = std::move(event.result);
      text.rule = request.rule;
      text.exact = request.exact;
      text.seed = request.seed;
      return nb::cast(FinishedText{event.id, std::move(text)});
    } else {
      return nb::cast(std::move(event));
    }
  }

  std::mutex mutex_;
  Engine engine_;
  std::map<RequestId, Request> requests_;
};

void bind_events(nb::module_& m) {
  nb::class_<TextPiece> piece(m, "TextPiece", "Finished characters of a text.");
  piece.def_ro("id", &TextPiece::id)
      .def_ro("text", &TextPiece::text)
      .def("__repr__", [](const TextPiece& e) {
        return nb::str("TextPiece(id={}, text={!r})").format(e.id, e.text);
      });
  def_pickle(piece);
  nb::class_<TokenOutput> output(m, "TokenOutput", "An output with its log-probability in nats.");
  output.def_ro("id", &TokenOutput::id)
      .def_ro("token", &TokenOutput::token)
      .def_ro("log_probability", &TokenOutput::log_probability)
      .def_ro("top", &TokenOutput::top)
      .def("__repr__", [](const TokenOutput& e) {
        return nb::str("TokenOutput(id={}, token={}, log_probability={:.4f})")
            .format(e.id, e.token, e.log_probability);
      });
  def_pickle(output);
  nb::class_<RoundReport> round(m, "RoundReport", "A round of a text that asked for its trace.");
  round.def_ro("id", &RoundReport::id)
      .def_ro("trace", &RoundReport::trace)
      .def_ro("bytes", &RoundReport::bytes, "by output: bytes of finished text that it added")
      .def("__repr__", [](const RoundReport& e) {
        return nb::str("RoundReport(id={}, {} drafts, {} kept, {} outputs)")
            .format(e.id, e.trace.drafts.size(), e.trace.kept.size(), e.trace.outputs.size());
      });
  def_pickle(round);
  nb::class_<Waiting> waiting(m, "Waiting", "The request waits for memory, and starts by itself.");
  waiting.def_ro("id", &Waiting::id)
      .def_ro("reason", &Waiting::reason)
      .def("__repr__", [](const Waiting& e) {
        return nb::str("Waiting(id={}, reason={!r})").format(e.id, e.reason);
      });
  def_pickle(waiting);
  nb::class_<FinishedText> text(m, "TextFinished", "A text has ended.");
  text.def_ro("id", &FinishedText::id)
      .def_ro("result", &FinishedText::result)
      .def("__repr__", [](const FinishedText& e) {
        return nb::str("TextFinished(id={}, {} tokens)").format(e.id, e.result.tokens.size());
      });
  def_pickle(text);
  nb::class_<Failed> failed(m, "Failed", "The request ended without a result.");
  failed.def_ro("id", &Failed::id)
      .def_ro("message", &Failed::message)
      .def_ro("by_request", &Failed::by_request)
      .def("__repr__", [](const Failed& e) {
        return nb::str("Failed(id={}, message={!r})").format(e.id, e.message);
      });
  def_pickle(failed);
  nb::class_<Preview> preview(m, "ImagePreview", "A prediction of the finished image.");
  preview.def_ro("id", &Preview::id)
      .def_ro("step", &Preview::step)
      .def_ro("values", &Preview::values, nb::rv_policy::automatic,
              "[channels, side, side] float32")
      .def("__repr__", [](const Preview& e) {
        return nb::str("ImagePreview(id={}, step={})").format(e.id, e.step);
      });
  def_pickle(preview);
  nb::class_<FinishedImage> image(m, "ImageFinished", "An image is finished, or was cancelled.");
  image.def_ro("id", &FinishedImage::id)
      .def_ro("steps", &FinishedImage::step)
      .def_ro("complete", &FinishedImage::complete)
      .def_ro("values", &FinishedImage::values, nb::rv_policy::automatic,
              "[channels, side, side] float32")
      .def_ro("statistics", &FinishedImage::statistics)
      .def_ro("seed", &FinishedImage::seed)
      .def("__repr__", [](const FinishedImage& e) {
        return nb::str("ImageFinished(id={}, steps={}, complete={}, seed={})")
            .format(e.id, e.step, e.complete, e.seed);
      });
  def_pickle(image);
}

/// Images of one kind.
template <class Model>
void def_submit_image(nb::class_<PythonEngine>& engine) {
  engine.def(
      "submit",
      [](PythonEngine& self, const Model& model, const ImageDrafter& drafter, std::int64_t label,
         const typename Model::Options& options, std::size_t previews) {
        return self.submit(
            {.seed = options.seed, .channels = model.channels(), .side = model.side()},
            [&](Engine& e) { return e.submit(model, drafter, label, options, previews); });
      },
      "model"_a, "drafter"_a, "label"_a, "options"_a, "previews"_a = 0);
}

}  // namespace

void bind_engine(nb::module_& m) {
  bind_events(m);
  nb::class_<PythonEngine> engine(m, "Engine", nb::dynamic_attr(),
                                  "Texts and images of many requests at once.");
  engine
      .def(
          "__init__",
          [](PythonEngine* self, std::size_t max_active, std::size_t kv_bytes,
             std::size_t max_prefixes) {
            new (self) PythonEngine(
                {.max_active = max_active, .kv_bytes = kv_bytes, .max_prefixes = max_prefixes});
          },
          "max_active"_a = 0, "kv_bytes"_a = 0, "max_prefixes"_a = EngineOptions().max_prefixes)
      .def(
          "submit",
          [](PythonEngine& self, const Model& model, const Drafter& drafter,
             const std::vector<Token>& prompt, const TextOptions& options,
             std::optional<std::size_t> log_probabilities) {
            const GenerateOptions held = [&] {
              const Unlocked unlocked;  // before the engine's turn: it does not wait for a grammar
              return options.of(model);
            }();
            return self.submit({.seed = held.seed,
                                .rule = held.rule,
                                .exact = held.exact() && drafter.keeps_law()},
                               [&](Engine& e) {
                                 return e.submit(model, drafter, prompt, held, log_probabilities);
                               });
          },
          "model"_a, "drafter"_a, "prompt"_a, "options"_a, "log_probabilities"_a = nb::none())
      .def("step", &PythonEngine::step, "One round of everything that runs; its events.")
      .def("cancel", &PythonEngine::cancel, "id"_a)
      .def("kv_bytes", &PythonEngine::used, "model"_a,
           "Bytes of keys and values that the model's texts hold.")
      .def_prop_ro("busy", &PythonEngine::busy);
  def_submit_image<DiffusionModel>(engine);
  def_submit_image<TokenImageModel>(engine);
}

}  // namespace forerun::python

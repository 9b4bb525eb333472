#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <utility>

#include "bindings.h"
#include "interrupts.h"
#include "lock.h"
#include "text_options.h"
#include "train_options.h"

namespace forerun::python {
namespace {

using nb::literals::operator""_a;

nb::dict figures_of(const std::vector<Figure>& figures) {
  nb::dict out;
  for (const Figure& f : figures) out[f.name.c_str()] = f.value();
  return out;
}

nb::dict to_dict(const Progress& p) {
  nb::dict out;
  out["step"] = p.step;
  out["steps"] = p.steps;
  out["epoch"] = p.epoch;
  out["loss"] = p.loss;
  out["smoothed_loss"] = p.smoothed_loss;
  out["learning_rate"] = p.learning_rate;
  out["gradient_norm"] = p.gradient_norm;
  out["tokens"] = p.tokens;
  out["tokens_per_second"] = p.tokens_per_second;
  out["gflops_per_second"] = p.gflops_per_second;
  out["seconds"] = p.seconds;
  out["eta_seconds"] = p.eta_seconds;
  out["figures"] = figures_of(p.figures);
  return out;
}

nb::dict to_dict(const HeldOut& h) {
  nb::dict out;
  out["step"] = h.step;
  out["loss"] = h.loss;
  out["figures"] = figures_of(h.figures);
  return out;
}

nb::dict to_dict(const TrainReport& r) {
  nb::dict out;
  out["end"] = std::string(name_of(r.end));
  out["step"] = r.step;
  out["steps"] = r.steps;
  out["resumed_from"] = r.resumed_from;
  out["parameters"] = r.parameters;
  out["tokens"] = r.tokens;
  out["seconds"] = r.seconds;
  out["loss"] = r.loss;
  out["smoothed_loss"] = r.smoothed_loss;
  out["held_out"] = r.has_held_out ? nb::object(to_dict(r.held_out)) : nb::none();
  out["checkpoint"] = r.checkpoint;
  out["log"] = r.log;
  return out;
}

// The callbacks among the keywords; the rest stays in `given`.
struct Callbacks {
  nb::object on_step = nb::none(), on_held_out = nb::none(), on_note = nb::none();

  explicit Callbacks(nb::dict& given) {
    for (const auto& [name, to] :
         {std::pair{"on_step", &on_step}, {"on_held_out", &on_held_out}, {"on_note", &on_note}}) {
      if (!given.contains(name)) continue;
      *to = given[name];
      nb::del(given[name]);
      if (to->is_none() || PyCallable_Check(to->ptr()) != 0) continue;
      throw UsageError(std::string(name) + ": is not callable");
    }
  }
  TrainListener listener(Interrupts& interrupts) const {
    TrainListener out;
    out.go_on = [&interrupts] { return interrupts.go_on(); };
    const auto calls = [&interrupts](const nb::object& callback, const auto& make) {
      if (!callback.is_none()) interrupts.run([&] { callback(make()); });
    };
    out.on_step = [this, calls](const Progress& p) { calls(on_step, [&] { return to_dict(p); }); };
    out.on_held_out = [this, calls](const HeldOut& h) {
      calls(on_held_out, [&] { return to_dict(h); });
    };
    out.on_note = [this, calls](std::string_view line) {
      calls(on_note, [&] { return nb::cast(std::string(line)); });
    };
    return out;
  }
};

template <class Method>
using Trains = std::function<TrainReport(const Training<Method>&, const TrainListener&)>;

template <class Method>
nb::dict trained(const FilePath& out, const nb::kwargs& keywords, const Trains<Method>& train) {
  nb::dict given;
  given.update(keywords);
  const Callbacks callbacks(given);
  Training<Method> t;
  set_fields(t, given);
  if (!given.contains("bf16") || given["bf16"].is_none())
    t.train.bf16 = trains_in_bf16(t.train.device);
  t.train.out = out.bytes;
  Interrupts interrupts;
  const TrainListener listener = callbacks.listener(interrupts);
  return to_dict(interrupts.during([&] { return train(t, listener); }));
}

// What every training function takes after its own arguments.
template <class Method>
std::string signature_of(const std::string& name, const std::string& arguments) {
  std::string out = "def " + name + "(" + arguments +
                    ", out: str | os.PathLike[str], *, on_step: collections.abc.Callable[[dict], "
                    "None] | None = None, "
                    "on_held_out: collections.abc.Callable[[dict], None] | None = None, "
                    "on_note: collections.abc.Callable[[str], None] | None = None";
  Training<Method> defaults;
  Fields<Training<Method>>::each([&](const char* field, auto access, const char*) {
    using Value = std::remove_cvref_t<decltype(access(defaults))>;
    out += std::string(", ") + field + ": " + signed_as<Value>() + " = " +
           nb::cast<std::string>(nb::repr(Field<Value>::to(access(defaults))));
  });
  return out + ") -> dict";
}

template <class Method>
std::string doc_of(const std::string& what) {
  std::string out =
      what +
      "\n\nThe result, the checkpoint and the log appear in the folder `out`; the same call "
      "resumes "
      "a run\nthat ended early. Ctrl-C, and an exception in a callback, end it with a checkpoint."
      "\n\nReturns what the run came to: end, step, loss, held_out, ...\n\nOptions:\n";
  Fields<Training<Method>>::each([&](const char* field, auto, const char* help) {
    out += std::string("    ") + field + ": " + help + "\n";
  });
  return out;
}

// An argument as the library takes it.
template <class T>
const T& library(const T& own) {
  return own;
}
const std::string& library(const FilePath& path) { return path.bytes; }
std::vector<std::string> library(const std::vector<FilePath>& paths) {
  std::vector<std::string> out;
  for (const FilePath& path : paths) out.push_back(path.bytes);
  return out;
}

// A function of a target and of folders of answers, or of images.
template <class Method, class... Arguments, class Train>
void def_training(nb::module_& m, const char* name, const char* arguments, const char* what,
                  Train train) {
  m.def(
      name,
      [train](const Arguments&... own, const FilePath& out, const nb::kwargs& keywords) {
        return trained<Method>(out, keywords,
                               [&](const Training<Method>& t, const TrainListener& listener) {
                                 return train(library(own)..., t.method, t.train, listener);
                               });
      },
      nb::sig(signature_of<Method>(name, arguments).c_str()), doc_of<Method>(what).c_str());
}

constexpr const char *kOfModel =
                         "target: Model, data: collections.abc.Sequence[str | os.PathLike[str]]",
                     *kOfFolder =
                         "target: str | os.PathLike[str], "
                         "data: collections.abc.Sequence[str | os.PathLike[str]]",
                     *kOfImages = "data: str | os.PathLike[str]";

void bind_training_on_answers(nb::module_& m) {
  using Folders = std::vector<FilePath>;
  def_training<DFlashTraining, Model, Folders>(
      m, "train_dflash", kOfModel,
      "Trains a DFlash drafter for `target` on folders that `distill` wrote.",
      [](const Model& target, const auto&... rest) { return train_dflash(target, rest...); });
  def_training<MedusaTraining, Model, Folders>(
      m, "train_medusa", kOfModel,
      "Trains Medusa heads for `target` on folders that `distill` wrote.",
      [](const Model& target, const auto&... rest) { return train_medusa(target, rest...); });
  def_training<DlmTraining, Model, Folders>(
      m, "train_dlm", kOfModel,
      "Trains a diffusion language model that drafts for `target`, from its first blocks.",
      [](const Model& target, const auto&... rest) {
        return train_dlm([&] { return target; }, rest...);
      });
  def_training<TidarTraining, Model, Folders>(
      m, "train_tidar", kOfModel,
      "Trains adapters by which `target` itself drafts on rows of masks; its weights stay.",
      [](const Model& target, const auto&... rest) { return train_tidar(target, rest...); });
  def_training<TidarModelTraining, FilePath, Folders>(
      m, "train_tidar_model", kOfFolder,
      "Trains all weights of the Hugging Face folder `target` to draft on rows of masks.",
      [](const auto&... all) { return train_tidar_model(all...); });
}

void bind_training_on_images(nb::module_& m) {
  def_training<DitTraining, FilePath>(m, "train_dit", kOfImages,
                                      "Trains a Diffusion Transformer on a folder of images.",
                                      [](const auto&... all) { return train_dit(all...); });
  def_training<FreeTraining, DiffusionModel, FilePath>(
      m, "train_free", "target: DiffusionModel, data: str | os.PathLike[str]",
      "Trains a FREE drafter for `target` on the target's training images.",
      [](const DiffusionModel& target, const auto&... rest) {
        return train_free(target, rest...);
      });
  def_training<MarTraining, FilePath>(
      m, "train_mar", kOfImages, "Trains a transformer over image tokens with a diffusion head.",
      [](const auto&... all) { return train_mar(all...); });
  def_training<CspdTraining, FilePath, FilePath>(
      m, "train_cspd", "target: str | os.PathLike[str], data: str | os.PathLike[str]",
      "Trains a draft for the image-token model in the folder `target`, on its training images.",
      [](const auto&... all) { return train_cspd(all...); });
  def_training<ClassifierTraining, FilePath>(
      m, "train_classifier", kOfImages,
      "Trains a small classifier of images, for the evaluation of samples.",
      [](const auto&... all) { return train_classifier(all...); });
}

nb::dict distilled(const Model& model, const std::vector<std::string>& prompts, const FilePath& out,
                   const TextOptions* options, std::size_t self_prompts, double self_temperature,
                   const nb::object& on_progress) {
  DistillOptions o;
  o.self_prompts = self_prompts;
  o.self_temperature = self_temperature;
  if (const std::string form = options != nullptr ? options->form() : ""; !form.empty()) {
    throw UsageError("distill: its answers have no form; leave " + form + " out");
  }
  if (options != nullptr) o.generate = *options;
  Interrupts interrupts;
  DistillListener listener;
  listener.go_on = [&] { return interrupts.go_on(); };
  if (!on_progress.is_none()) {
    listener.on_progress = [&](std::size_t documents, std::size_t of, std::size_t tokens,
                               double seconds) {
      interrupts.run([&] { on_progress(documents, of, tokens, seconds); });
    };
  }
  const Distilled d =
      interrupts.during([&] { return distill(model, prompts, out.bytes, o, listener); });
  nb::dict result;
  result["folder"] = d.folder;
  result["documents"] = d.documents;
  result["answer_tokens"] = d.answer_tokens;
  result["looping"] = d.looping;
  result["dropped"] = d.dropped;
  result["added"] = d.added;
  result["added_tokens"] = d.added_tokens;
  result["seed"] = o.generate.seed;
  result["seconds"] = d.seconds;
  return result;
}

}  // namespace

void bind_training(nb::module_& m) {
  bind_training_on_answers(m);
  bind_training_on_images(m);
  m.def("distill", &distilled, "model"_a, "prompts"_a = std::vector<std::string>(),
        "out"_a = FilePath(), nb::kw_only(), "options"_a.none() = nb::none(), "self_prompts"_a = 0,
        "self_temperature"_a = 1.0, "on_progress"_a = nb::none(),
        "The model answers prompts; the answers are kept as token shards in the folder `out`, as "
        "data to train a drafter on.\nWithout `out` the folder is MODEL.answers beside the model, "
        "where the drafter auto finds them. The same call resumes one that was interrupted. "
        "on_progress(documents, of, tokens, seconds) is called after every round.");
  m.def(
      "train_ngram",
      [](const std::vector<FilePath>& data, const FilePath& out) {
        const NgramReport r = [&] {
          const Unlocked unlocked;
          return train_ngram(library(data), out.bytes);
        }();
        nb::dict result;
        result["documents"] = r.documents;
        result["tokens"] = r.tokens;
        result["grams"] = r.grams;
        return result;
      },
      "data"_a, "out"_a,
      "Trigrams of the token ids in folders that `distill` wrote, as an ARPA file.");
}

}  // namespace forerun::python

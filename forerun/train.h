#pragma once

/// Training of drafters, small image models and classifiers, and their training data.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/generate_options.h"
#include "forerun/image.h"
#include "forerun/model.h"
#include "forerun/train/classifier/classifier_training.h"
#include "forerun/train/dflash/dflash_training.h"
#include "forerun/train/dit/dit_training.h"
#include "forerun/train/dlm/dlm_training.h"
#include "forerun/train/free/free_training.h"
#include "forerun/train/mar/mar_training.h"
#include "forerun/train/medusa/medusa_training.h"
#include "forerun/train/options.h"
#include "forerun/train/tidar/tidar_training.h"
#include "forerun/train/train_error.h"

#pragma GCC visibility push(default)
namespace forerun {

/// How a model writes training texts.
struct DistillOptions {
  GenerateOptions generate;       ///< of the answers; `batch_size` of them at a time
  std::size_t self_prompts = 0;   ///< prompts that the model writes itself, besides the given
  double self_temperature = 1.0;  ///< of their sampling
  std::size_t shard = 512;        ///< documents a file; no more are lost when the process is killed
};

/// Content of the folder, and the call's part of it.
struct Distilled {
  std::string folder;                            ///< of the answers
  std::size_t documents = 0, answer_tokens = 0;  ///< in the folder
  std::size_t looping =
      0;  ///< of these documents: answers that end in the same words again and again
  std::size_t dropped = 0;  ///< prompts without an answer: beyond the context, or not finished by
                            ///< the model that wrote them
  std::size_t added = 0, added_tokens = 0;
  double seconds = 0.0;
  bool interrupted = false;
};

/// Reported after every round: documents and answer tokens so far, and the total of documents.
struct DistillListener {
  std::function<void(std::size_t documents, std::size_t of, std::size_t tokens, double seconds)>
      on_progress;
  std::function<bool()> go_on;  ///< false ends after the round; finished answers are kept
  std::function<void(std::string_view)> on_note;  ///< a line about something unusual
};

/// The model answers prompts, each in its chat format, and documents are kept as token shards in
/// `folder` (formats/token_shards.h). Existing answers are not made again: the same call resumes an
/// interrupted one.
/// @param folder        empty: answers_folder(model), where the drafter "auto" finds them
/// @throws UsageError   a folder with answers of other options (the message names them), or with
/// other files; no chat format
/// @throws FormatError  the folder cannot be written, holds damaged files, or another process
/// writes answers into it
Distilled distill(const Model& model, std::span<const std::string> prompts,
                  const std::string& folder, const DistillOptions& options,
                  const DistillListener& listener = {});

/// Trains a DFlash drafter for `target` on the answers in `data`, folders of `distill`. The drafter
/// appears in `training.out` (config.json, model.safetensors) with every checkpoint; the same call
/// resumes a run that ended early. Under mpirun all ranks call it.
/// @param target  in the precision of the target that it will draft for: it then learns from the
/// same states. What learned from int8 drafts as well for int4.
/// @throws UsageError  options or data that do not match; other failures as `train` of
/// train/trainer.h; StoppedByOtherRank if another rank reports the failure
TrainReport train_dflash(const Model& target, const std::vector<std::string>& data,
                         const DFlashTraining& options, const TrainOptions& training,
                         const TrainListener& listener = {});

/// The same with a target that is loaded after all ranks have started: its errors are reported
/// once.
TrainReport train_dflash(const std::function<Model()>& target, const std::vector<std::string>& data,
                         const DFlashTraining& options, const TrainOptions& training,
                         const TrainListener& listener = {});

/// Trains Medusa heads for `target` on its answers, in the same way.
TrainReport train_medusa(const Model& target, const std::vector<std::string>& data,
                         const MedusaTraining& options, const TrainOptions& training,
                         const TrainListener& listener = {});

/// The same with a target that is loaded after all ranks have started.
TrainReport train_medusa(const std::function<Model()>& target, const std::vector<std::string>& data,
                         const MedusaTraining& options, const TrainOptions& training,
                         const TrainListener& listener = {});

/// Trains a diffusion language model that drafts for `target`, from the target's first blocks, on
/// its answers, in the same way.
TrainReport train_dlm(const std::function<Model()>& target, const std::vector<std::string>& data,
                      const DlmTraining& options, const TrainOptions& training,
                      const TrainListener& listener = {});

/// Trains adapters by which `target` itself drafts on rows of masks, in the same way and on the
/// same answers. Its weights do not change.
TrainReport train_tidar(const Model& target, const std::vector<std::string>& data,
                        const TidarTraining& options, const TrainOptions& training,
                        const TrainListener& listener = {});

/// The same with a target that is loaded after all ranks have started.
TrainReport train_tidar(const std::function<Model()>& target, const std::vector<std::string>& data,
                        const TidarTraining& options, const TrainOptions& training,
                        const TrainListener& listener = {});

/// Trains all weights of a model so that it drafts for itself on rows of masks (TiDAR,
/// arXiv:2511.08923), in the same way, on documents that anyone wrote in its tokens. The result is
/// a whole model in Hugging Face's layout, with the tokenizer of `target`.
/// @param target  a Hugging Face folder: config.json, tokenizer.json and, unless `options.random`,
///                weights
TrainReport train_tidar_model(const std::string& target, const std::vector<std::string>& data,
                              const TidarModelTraining& options, const TrainOptions& training,
                              const TrainListener& listener = {});

struct NgramReport {
  std::size_t documents = 0, tokens = 0;
  std::vector<std::size_t> grams;  ///< different ones of one, two and three tokens
};
/// Trigrams of the token ids in folders that `distill` wrote, smoothed by modified Kneser-Ney, as
/// an ARPA file: what the drafter diffuspec's search weighs with.
/// @throws UsageError   folders without documents
/// @throws FormatError  a damaged folder, or `out` cannot be written
NgramReport train_ngram(const std::vector<std::string>& data, const std::string& out);

/// True if a text ends in the same words again and again: its last 30 tokens or more are three or
/// more copies of one piece.
bool ends_in_loop(std::span<const Token> tokens);

/// Trains a Diffusion Transformer on images: a folder of IDX files as MNIST has them, whose test
/// images are held out, or of PNG files by class (train/CLASS and test/CLASS, or CLASS alone). The
/// model appears in `training.out` (config.json, model.safetensors) with every checkpoint; the same
/// call resumes a run that ended early. Under mpirun all ranks call it.
/// @throws UsageError   options or data that do not match
/// @throws FormatError  a folder without images, or with damaged ones
/// Other failures as `train` of train/trainer.h.
TrainReport train_dit(const std::string& data, const DitTraining& options,
                      const TrainOptions& training, const TrainListener& listener = {});

/// Trains a FREE drafter for `target` on the target's training images, in the same way.
TrainReport train_free(const DiffusionModel& target, const std::string& data,
                       const FreeTraining& options, const TrainOptions& training,
                       const TrainListener& listener = {});

/// The same with a target that is loaded after all ranks have started: its errors are reported
/// once.
TrainReport train_free(const std::function<DiffusionModel()>& target, const std::string& data,
                       const FreeTraining& options, const TrainOptions& training,
                       const TrainListener& listener = {});

/// Trains a causal transformer over image tokens with a diffusion head, in the same way. Its
/// variance is calibrated on the held-out images whenever it is saved.
TrainReport train_mar(const std::string& data, const MarTraining& options,
                      const TrainOptions& training, const TrainListener& listener = {});

/// Trains a draft for the one in the folder `target`, on its training images, in the same way.
TrainReport train_cspd(const std::string& target, const std::string& data,
                       const CspdTraining& options, const TrainOptions& training,
                       const TrainListener& listener = {});

/// Trains a small classifier on images in the same way, for `evaluate_images`. It learns each
/// image's class; the log shows the accuracy on the test images.
TrainReport train_classifier(const std::string& data, const ClassifierTraining& options,
                             const TrainOptions& training, const TrainListener& listener = {});

/// Whether a device trains faster with bfloat16 products than with float32 ones: processors
/// with AVX-512 do, on others bfloat16 is emulated, many times slower. GPUs do.
/// @param device  as TrainOptions::device
bool trains_in_bf16(const std::string& device = "cpu") noexcept;

}  // namespace forerun
#pragma GCC visibility pop

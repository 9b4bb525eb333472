#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <vector>

#include "forerun/formats/hf_config.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/models/load_decoder.h"
#include "forerun/text.h"
#include "forerun/train.h"
#include "tests/support/chat_model.h"
#include "tests/support/temp_folder.h"

/// A tiny target that chats, and DFlash networks for it that have hardly begun to learn.
namespace forerun::testing {

inline const TempFolder& dflash_folder() {
  static const TempFolder folder;
  return folder;
}

/// The target's folder; written once in a process.
inline const std::string& chat_model_path() {
  static const std::string path = make_chat_model(dflash_folder().path() / "model");
  return path;
}

inline const Model& chat_model() {
  static const Model model = Model::load(chat_model_path(), Precision::kF32);
  return model;
}

/// Folder of a dozen of its answers.
inline const std::string& chat_answers() {
  static const std::string path = [] {
    DistillOptions o;
    o.generate.sampling.temperature = 1.0;
    o.generate.max_tokens = 32;
    o.generate.ignore_end = true;
    const std::string out = (dflash_folder().path() / "answers").string();
    distill(chat_model(), questions(12), out, o);
    return out;
  }();
  return path;
}

struct DFlashKind {
  std::int64_t block = 8;
  bool next = true, dspark = true, reduced = false;
  bool second = false,
       gated = false;  ///< DFlash 2's convolutions and selector; DSpark's gated head
};

/// Gives the matrices of a folder random values: parts that begin without effect have one.
inline void make_random(const std::string& folder) {
  const DecoderLm target =
      load_decoder(load_hf_config(chat_model_path()), load_safetensors(chat_model_path()),
                   chat_model_path(), Precision::kF32);
  DFlash m = load_dflash(folder, DFlashTarget(target));
  at::manual_seed(9);
  for (const ModelWeight& w : weights(m)) {
    if (w.shape.size() == 1) continue;
    const double inputs = static_cast<double>(w.shape.back());
    *w.tensor = w.name.ends_with("codebook") || w.name.ends_with("base_kernel")
                    ? at::randn(w.shape)
                    : at::randn(w.shape) / std::sqrt(inputs);
  }
  save_dflash(folder, m);
}

/// Trains a network of this kind for three steps.
inline void make_tiny_dflash(const DFlashKind& kind, const std::string& folder) {
  DFlashTraining o;
  o.block = kind.block;
  o.features = {0, 1};
  o.predicts_next = kind.next;
  o.markov_rank = kind.dspark ? 16 : 0;
  o.confidence = kind.dspark;
  o.slot_state = kind.dspark;
  o.conv = kind.second;
  o.selector_rank = kind.second ? 8 : 0;
  o.markov_head = kind.gated ? "gated" : "vanilla";
  o.draft_vocab = kind.reduced ? 100 : 0;
  o.from_target = false;
  o.loss.anchors = 4;
  o.loss.held_out = 0.0;
  TrainOptions t;
  t.out = folder;
  t.steps = 3;
  t.batch = 4;
  t.bf16 = false;
  t.threads = 1;
  train_dflash(chat_model(), {chat_answers()}, o, t);
  if (kind.second || kind.gated) make_random(folder);
}

/// The folder of one of the default kind.
inline const std::string& tiny_dflash_path() {
  static const std::string path = [] {
    const std::string folder = (dflash_folder().path() / "dflash").string();
    make_tiny_dflash({}, folder);
    return folder;
  }();
  return path;
}

}  // namespace forerun::testing

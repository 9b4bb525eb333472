#pragma once

#include <string>
#include <vector>

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
  static const Model model = Model::load(chat_model_path());
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
};

/// Trains a network of this kind for three steps.
inline void make_tiny_dflash(const DFlashKind& kind, const std::string& folder) {
  DFlashTraining o;
  o.block = kind.block;
  o.features = {0, 1};
  o.predicts_next = kind.next;
  o.markov_rank = kind.dspark ? 16 : 0;
  o.confidence = kind.dspark;
  o.slot_state = kind.dspark;
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

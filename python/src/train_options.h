#pragma once

#include <forerun/train.h>

#include "options.h"

namespace forerun::python {

/// A call of a training function: what is trained, and how.
template <class Method>
struct Training {
  Method method;
  TrainOptions train;
};

/// What all training has.
template <class O, class Visit>
void each_training_field(Visit&& visit) {
  visit(
      "steps", [](O & o) -> auto& { return o.train.steps; }, "optimizer steps; 0: by epochs");
  visit(
      "epochs", [](O & o) -> auto& { return o.train.epochs; }, "passes over the examples");
  visit(
      "batch", [](O & o) -> auto& { return o.train.batch; }, "examples a step");
  visit(
      "micro_batch", [](O & o) -> auto& { return o.train.micro_batch; }, "of them at a time");
  visit(
      "learning_rate", [](O & o) -> auto& { return o.train.learning_rate; }, "largest");
  visit(
      "warmup", [](O & o) -> auto& { return o.train.warmup; },
      "share of the steps in which it rises");
  visit(
      "min_rate", [](O & o) -> auto& { return o.train.min_rate; },
      "share of it at which the cosine ends");
  visit(
      "muon", [](O & o) -> auto& { return o.train.muon; },
      "Muon for hidden matrices, AdamW for the rest");
  visit(
      "weight_decay", [](O & o) -> auto& { return o.train.weight_decay; }, "of matrices");
  visit(
      "clip", [](O & o) -> auto& { return o.train.clip; }, "largest norm of the gradient; 0: none");
  visit(
      "ema", [](O & o) -> auto& { return o.train.ema; },
      "decay of the average of the weights; 0: none");
  visit(
      "bf16", [](O & o) -> auto& { return o.train.bf16; }, "products in bfloat16");
  visit(
      "seed", [](O & o) -> auto& { return o.train.seed; }, "of all random numbers");
  visit(
      "checkpoint_steps", [](O & o) -> auto& { return o.train.checkpoint_steps; },
      "steps between checkpoints; 0: by time");
  visit(
      "checkpoint_seconds", [](O & o) -> auto& { return o.train.checkpoint_seconds; },
      "seconds between checkpoints; 0: by steps");
  visit(
      "evaluate_steps", [](O & o) -> auto& { return o.train.evaluate_steps; },
      "steps between held-out losses; 0: at the end");
  visit(
      "time_limit", [](O & o) -> auto& { return o.train.time_limit; },
      "seconds after which it stops, to be resumed; 0: none");
  visit(
      "threads", [](O & o) -> auto& { return o.train.threads; }, "0: one a core");
  visit(
      "device", [](O & o) -> auto& { return o.train.device; },
      "'cpu', or 'cuda' in a build with a libtorch for CUDA");
}

// What all training on a target's answers has.
template <class O, class Visit>
void each_answer_field(Visit&& visit) {
  visit(
      "length", [](O & o) -> auto& { return o.method.loss.length; },
      "tokens of a document at most");
  visit(
      "gamma", [](O & o) -> auto& { return o.method.loss.gamma; },
      "draft k counts exp(-k / gamma)");
  visit(
      "distill", [](O & o) -> auto& { return o.method.loss.distill; },
      "share of the loss against the target's law");
  visit(
      "held_out", [](O & o) -> auto& { return o.method.loss.held_out; },
      "share of the answers not trained on");
}

template <>
struct Fields<Training<DFlashTraining>> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = Training<DFlashTraining>;
    visit(
        "layers", [](O & o) -> auto& { return o.method.layers; }, "of the drafter");
    visit(
        "block", [](O & o) -> auto& { return o.method.block; }, "slots: the anchor, then masks");
    visit(
        "predicts_next", [](O & o) -> auto& { return o.method.predicts_next; },
        "slot k predicts the token after it");
    visit(
        "features", [](O & o) -> auto& { return o.method.features; },
        "target blocks whose output is read; none: 5, evenly");
    visit(
        "draft_vocab", [](O & o) -> auto& { return o.method.draft_vocab; },
        "the target's most frequent tokens; 0: all");
    visit(
        "markov_rank", [](O & o) -> auto& { return o.method.markov_rank; },
        "of the Markov head; 0: none");
    visit(
        "markov_head", [](O & o) -> auto& { return o.method.markov_head; },
        "'vanilla' or 'gated', by the slot's output");
    visit(
        "selector_rank", [](O & o) -> auto& { return o.method.selector_rank; },
        "of DFlash 2's selector, in place of the Markov head; 0: none");
    visit(
        "conv", [](O & o) -> auto& { return o.method.conv; },
        "convolutions over neighbouring slots around each sublayer");
    visit(
        "weight_bits", [](O & o) -> auto& { return o.method.weight_bits; },
        "4: weights are rounded to 4 bits in training as in passes; 0: not");
    visit(
        "slot_state", [](O & o) -> auto& { return o.method.slot_state; },
        "the newest state is added to the slots");
    visit(
        "confidence", [](O & o) -> auto& { return o.method.confidence; }, "with a confidence head");
    visit(
        "init", [](O& o) { return PathField{o.method.init}; },
        "folder of a drafter to continue from");
    visit(
        "from_target", [](O & o) -> auto& { return o.method.from_target; },
        "begins as the target's last blocks");
    visit(
        "anchors", [](O & o) -> auto& { return o.method.loss.anchors; }, "blocks of an answer");
    visit(
        "confidence_weight", [](O & o) -> auto& { return o.method.loss.confidence; },
        "of the confidence head's loss");
    visit(
        "law_loss", [](O & o) -> auto& { return o.method.loss.law_loss; },
        "against the target's law: cross-entropy or l1");
    visit(
        "state_store", [](O& o) { return PathField{o.method.loss.state_store}; },
        "file that keeps the target's states");
    each_answer_field<O>(visit);
    each_training_field<O>(visit);
  }
};

template <>
struct Fields<Training<MedusaTraining>> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = Training<MedusaTraining>;
    visit(
        "heads", [](O & o) -> auto& { return o.method.heads; }, "tokens that they predict");
    visit(
        "width", [](O & o) -> auto& { return o.method.width; }, "of the trunk and of the heads");
    visit(
        "intermediate", [](O & o) -> auto& { return o.method.intermediate; },
        "width of the trunk's MLP");
    visit(
        "features", [](O & o) -> auto& { return o.method.features; },
        "target blocks whose output is read; none: of five even ones the second, fourth, fifth");
    visit(
        "draft_vocab", [](O & o) -> auto& { return o.method.draft_vocab; },
        "the target's most frequent tokens; 0: all");
    visit(
        "markov_rank", [](O & o) -> auto& { return o.method.markov_rank; },
        "of the Markov head; 0: none");
    visit(
        "weight_bits", [](O & o) -> auto& { return o.method.weight_bits; },
        "4: weights are rounded to 4 bits in training as in passes; 0: not");
    visit(
        "init", [](O& o) { return PathField{o.method.init}; }, "folder of heads to continue from");
    visit(
        "anchors", [](O & o) -> auto& { return o.method.loss.anchors; },
        "places of an answer at which heads are trained");
    visit(
        "state_store", [](O& o) { return PathField{o.method.loss.state_store}; },
        "file that keeps the target's states");
    each_answer_field<O>(visit);
    each_training_field<O>(visit);
  }
};

template <>
struct Fields<Training<DlmTraining>> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = Training<DlmTraining>;
    visit(
        "layers", [](O & o) -> auto& { return o.method.layers; },
        "the target's first blocks that it begins as");
    visit(
        "block", [](O & o) -> auto& { return o.method.block; }, "drafts of a pass");
    visit(
        "draft_vocab", [](O & o) -> auto& { return o.method.draft_vocab; },
        "the target's most frequent tokens; 0: all");
    visit(
        "weight_bits", [](O & o) -> auto& { return o.method.weight_bits; },
        "4: weights are rounded to 4 bits in training as in passes; 0: not");
    visit(
        "init", [](O& o) { return PathField{o.method.init}; }, "folder of one to continue from");
    visit(
        "anchors", [](O & o) -> auto& { return o.method.loss.anchors; }, "blocks of an answer");
    each_answer_field<O>(visit);
    each_training_field<O>(visit);
  }
};

template <>
struct Fields<Training<TidarTraining>> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = Training<TidarTraining>;
    visit(
        "rank", [](O & o) -> auto& { return o.method.rank; },
        "of the adapters of every linear layer");
    visit(
        "block", [](O & o) -> auto& { return o.method.block; },
        "tokens of a block, the decided first one included");
    visit(
        "first_slot", [](O & o) -> auto& { return o.method.first_slot; },
        "a mask for the block's first token too");
    visit(
        "markov_rank", [](O & o) -> auto& { return o.method.markov_rank; },
        "of the Markov head; 0: none");
    visit(
        "init", [](O& o) { return PathField{o.method.init}; },
        "folder of adapters to continue from");
    visit(
        "offsets", [](O & o) -> auto& { return o.method.loss.offsets; },
        "sets of blocks of an answer");
    each_answer_field<O>(visit);
    each_training_field<O>(visit);
  }
};

template <>
struct Fields<Training<TidarModelTraining>> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = Training<TidarModelTraining>;
    visit(
        "block", [](O & o) -> auto& { return o.method.block; },
        "tokens of a block, the decided first one included");
    visit(
        "first_slot", [](O & o) -> auto& { return o.method.first_slot; },
        "a mask for the block's first token too");
    visit(
        "markov_rank", [](O & o) -> auto& { return o.method.markov_rank; },
        "of the Markov head; 0: none");
    visit(
        "random", [](O & o) -> auto& { return o.method.random; }, "from random weights");
    visit(
        "offsets", [](O & o) -> auto& { return o.method.loss.offsets; },
        "sets of blocks of a document");
    visit(
        "alpha", [](O & o) -> auto& { return o.method.loss.alpha; },
        "weight of the text's own rows");
    visit(
        "masks", [](O & o) -> auto& { return o.method.loss.masks; },
        "False: the autoregressive twin");
    visit(
        "random_masks", [](O & o) -> auto& { return o.method.loss.random_masks; },
        "some slots of a block show their token");
    each_answer_field<O>(visit);
    each_training_field<O>(visit);
  }
};

template <>
struct Fields<Training<DitTraining>> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = Training<DitTraining>;
    visit(
        "depth", [](O & o) -> auto& { return o.method.depth; }, "blocks");
    visit(
        "hidden", [](O & o) -> auto& { return o.method.hidden; }, "width");
    visit(
        "heads", [](O & o) -> auto& { return o.method.heads; }, "of attention");
    visit(
        "patch", [](O & o) -> auto& { return o.method.patch; }, "side of a patch");
    visit(
        "side", [](O & o) -> auto& { return o.method.side; },
        "that images are padded to; 0: their own");
    visit(
        "drop", [](O & o) -> auto& { return o.method.drop; },
        "share of the images without their class");
    visit(
        "flip", [](O & o) -> auto& { return o.method.flip; }, "half of the images flipped");
    visit(
        "init", [](O& o) { return PathField{o.method.init}; },
        "folder of a network to continue from");
    each_training_field<O>(visit);
  }
};

template <>
struct Fields<Training<FreeTraining>> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = Training<FreeTraining>;
    visit(
        "feature", [](O & o) -> auto& { return o.method.feature; },
        "weight of the cosine distance of features");
    visit(
        "smooth", [](O & o) -> auto& { return o.method.smooth; },
        "weight of their Smooth-L1 distance");
    visit(
        "overlap", [](O & o) -> auto& { return o.method.overlap; },
        "weight of -log of the acceptance probability");
    visit(
        "frozen_image", [](O & o) -> auto& { return o.method.frozen_image; },
        "predicts the difference from a constant predicted image");
    visit(
        "guidance", [](O & o) -> auto& { return o.method.guidance; }, "of the drafts; 1: none");
    visit(
        "late", [](O & o) -> auto& { return o.method.late; },
        "share of the images among the last 100 times");
    visit(
        "drop", [](O & o) -> auto& { return o.method.drop; },
        "share of the images without their class");
    visit(
        "flip", [](O & o) -> auto& { return o.method.flip; }, "half of the images flipped");
    visit(
        "unroll", [](O & o) -> auto& { return o.method.unroll; }, "steps on its own feature");
    visit(
        "init", [](O& o) { return PathField{o.method.init}; },
        "folder of a drafter to continue from");
    each_training_field<O>(visit);
  }
};

template <>
struct Fields<Training<MarTraining>> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = Training<MarTraining>;
    visit(
        "depth", [](O & o) -> auto& { return o.method.depth; }, "blocks");
    visit(
        "hidden", [](O & o) -> auto& { return o.method.hidden; }, "width");
    visit(
        "heads", [](O & o) -> auto& { return o.method.heads; }, "of attention");
    visit(
        "head_blocks", [](O & o) -> auto& { return o.method.head_blocks; },
        "of the diffusion head");
    visit(
        "head_width", [](O & o) -> auto& { return o.method.head_width; }, "of the diffusion head");
    visit(
        "patch", [](O & o) -> auto& { return o.method.patch; }, "side of a token's patch");
    visit(
        "side", [](O & o) -> auto& { return o.method.side; },
        "that images are padded to; 0: their own");
    visit(
        "masked", [](O & o) -> auto& { return o.method.masked; },
        "the published form: any order, several tokens a pass");
    visit(
        "decoder_depth", [](O & o) -> auto& { return o.method.decoder_depth; },
        "masked form: blocks that see all tokens; 0: as depth");
    visit(
        "buffer", [](O & o) -> auto& { return o.method.buffer; },
        "masked form: rows of the class; 0: a quarter of the tokens");
    visit(
        "scattered", [](O & o) -> auto& { return o.method.scattered; },
        "successive tokens are seldom neighbours");
    visit(
        "joint", [](O & o) -> auto& { return o.method.joint; },
        "the head is modulated as published");
    visit(
        "draws", [](O & o) -> auto& { return o.method.draws; }, "noises of a token in a step");
    visit(
        "drop", [](O & o) -> auto& { return o.method.drop; },
        "share of the images without their class");
    visit(
        "flip", [](O & o) -> auto& { return o.method.flip; }, "half of the images flipped");
    visit(
        "noise", [](O & o) -> auto& { return o.method.noise; }, "added to tokens of spread 1");
    visit(
        "vae", [](O& o) { return PathField{o.method.vae}; },
        "folder of an autoencoder: learn its latents");
    visit(
        "init", [](O& o) { return PathField{o.method.init}; },
        "folder of a network to continue from");
    each_training_field<O>(visit);
  }
};

template <>
struct Fields<Training<CspdTraining>> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = Training<CspdTraining>;
    visit(
        "depth", [](O & o) -> auto& { return o.method.depth; }, "blocks");
    visit(
        "hidden", [](O & o) -> auto& { return o.method.hidden; }, "width");
    visit(
        "heads", [](O & o) -> auto& { return o.method.heads; }, "of attention");
    visit(
        "head_blocks", [](O & o) -> auto& { return o.method.head_blocks; },
        "of the diffusion head");
    visit(
        "head_width", [](O & o) -> auto& { return o.method.head_width; }, "of the diffusion head");
    visit(
        "distill", [](O & o) -> auto& { return o.method.distill; },
        "share of the loss that is the distance to the target");
    visit(
        "draws", [](O & o) -> auto& { return o.method.draws; }, "noises of a token in a step");
    visit(
        "drop", [](O & o) -> auto& { return o.method.drop; },
        "share of the images without their class");
    visit(
        "flip", [](O & o) -> auto& { return o.method.flip; }, "half of the images flipped");
    visit(
        "vae", [](O& o) { return PathField{o.method.vae}; }, "the target's autoencoder");
    visit(
        "init", [](O& o) { return PathField{o.method.init}; },
        "folder of a draft to continue from");
    each_training_field<O>(visit);
  }
};

template <>
struct Fields<Training<ClassifierTraining>> {
  template <class Visit>
  static void each(Visit&& visit) {
    using O = Training<ClassifierTraining>;
    visit(
        "width", [](O & o) -> auto& { return o.method.width; },
        "channels after the first convolution");
    visit(
        "features", [](O & o) -> auto& { return o.method.features; }, "of the last layer but one");
    visit(
        "side", [](O & o) -> auto& { return o.method.side; },
        "that images are padded to; 0: their own");
    visit(
        "flip", [](O & o) -> auto& { return o.method.flip; }, "half of the images flipped");
    visit(
        "shift", [](O & o) -> auto& { return o.method.shift; }, "pixels in each direction at most");
    visit(
        "smoothing", [](O & o) -> auto& { return o.method.smoothing; },
        "share of a label spread over all classes");
    each_training_field<O>(visit);
  }
};

}  // namespace forerun::python

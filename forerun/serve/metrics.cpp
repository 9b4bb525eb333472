#include "forerun/serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace forerun::serve {
namespace {

// A label's value: \, " and newline are escaped.
std::string label_value(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

void Histogram::observe(double seconds, std::uint64_t times) {
  for (std::size_t i = 0; i < kEdges.size(); ++i) {
    if (seconds <= kEdges[i]) at_most_[i] += times;
  }
  count_ += times;
  sum_ += seconds * static_cast<double>(times);
}

std::string Histogram::text(std::string_view name, std::string_view labels,
                            std::string_view help) const {
  std::string out = fmt::format("# HELP {} {}\n# TYPE {} histogram\n", name, help, name);
  const std::string more = labels.empty() ? std::string() : std::string(labels) + ",";
  for (std::size_t i = 0; i < kEdges.size(); ++i) {
    out += fmt::format("{}_bucket{{{}le=\"{}\"}} {}\n", name, more, kEdges[i], at_most_[i]);
  }
  out += fmt::format("{}_bucket{{{}le=\"+Inf\"}} {}\n", name, more, count_);
  const std::string braces = labels.empty() ? std::string() : fmt::format("{{{}}}", labels);
  return out +
         fmt::format("{}_sum{} {}\n{}_count{} {}\n", name, braces, sum_, name, braces, count_);
}

void Metrics::answered(const std::string& path, unsigned status) { ++answers_[{path, status}]; }

void Metrics::round(const std::string& drafter, const RoundTrace& trace, double seconds,
                    bool first) {
  Drafting& d = drafting_[drafter];
  ++d.rounds;
  d.with_drafts += trace.drafts.empty() ? 0 : 1;
  d.drafted += trace.drafts.size();
  d.kept += trace.kept.size();
  const std::size_t outputs = trace.outputs.size();
  tokens_ += outputs;
  if (outputs == 0) return;
  if (first) {
    first_token_.observe(seconds);
    // The others of the first round come with it.
    if (outputs > 1) between_tokens_.observe(0.0, outputs - 1);
  } else {
    between_tokens_.observe(seconds / static_cast<double>(outputs), outputs);
  }
}

void Metrics::finished(const std::string& drafter, const TextResult& text,
                       std::size_t prompt_tokens) {
  Drafting& d = drafting_[drafter];
  const auto add = [](std::vector<std::uint64_t>& to, const std::vector<std::uint64_t>& from) {
    to.resize(std::max(to.size(), from.size()));
    for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  };
  add(d.kept_at, text.statistics.accepted);
  add(d.examined_at, text.statistics.examined);
  ++texts_;
  prompt_tokens_ += prompt_tokens;
  cached_tokens_ += text.shared_tokens;
  passes_ += text.statistics.passes;
  prompt_seconds_ += text.prefill_seconds;
  seconds_ += text.seconds;
}

void Metrics::image_finished(const RunStatistics& image) {
  ++images_;
  image_rounds_ += image.rounds;
  image_steps_ += image.outputs;
}

double Metrics::mean_request_seconds() const {
  const auto n = request_seconds_.count();
  return n == 0 ? 0.0 : request_seconds_.sum() / static_cast<double>(n);
}

// Lines of one metric stand together, after its HELP and TYPE.
struct Metrics::Page {
  std::string text;

  void head(std::string_view name, std::string_view type, std::string_view help) {
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <class T>
  void line(std::string_view name, const std::string& labels, T value) {
    text += labels.empty() ? fmt::format("{} {}\n", name, value)
                           : fmt::format("{}{{{}}} {}\n", name, labels, value);
  }
  template <class T>
  void one(std::string_view name, std::string_view type, std::string_view help, T value,
           const std::string& labels = "") {
    head(name, type, help);
    line(name, labels, value);
  }
};

void Metrics::add_ours(Page& page, const Now& now) const {
  page.head("forerun_requests_total", "counter", "Answered requests");
  for (const auto& [of, count] : answers_) {
    page.line("forerun_requests_total",
              fmt::format("path={},code=\"{}\"", label_value(of.first), of.second), count);
  }
  page.one("forerun_texts_total", "counter", "Texts that ended", texts_);
  page.one("forerun_images_total", "counter", "Images that ended", images_);
  page.one("forerun_image_rounds_total", "counter", "Verifying passes, each image's counted",
           image_rounds_);
  page.one("forerun_image_steps_total", "counter", "Steps of images, or their tokens",
           image_steps_);
  page.one("forerun_texts_running", "gauge", "Texts that run", now.memory.active);
  page.one("forerun_texts_waiting", "gauge", "Texts that wait", now.waiting);
  page.one("forerun_connections", "gauge", "Open connections", now.connections);
  page.one("forerun_draining", "gauge", "1 while the server ends", now.draining ? 1 : 0);
  page.one("forerun_prompt_tokens_total", "counter", "Tokens of prompts", prompt_tokens_);
  page.one("forerun_prompt_tokens_cached_total", "counter",
           "Of them, those whose keys and values were kept from earlier texts", cached_tokens_);
  page.one("forerun_tokens_total", "counter", "Generated tokens", tokens_);
  page.one("forerun_prompt_seconds_total", "counter", "Passes over prompts", prompt_seconds_);
  page.one("forerun_generation_seconds_total", "counter",
           "Rounds; a pass of several texts counts in equal parts", seconds_);
  page.one("forerun_kv_bytes", "gauge", "Keys and values", now.memory.used);
  if (now.memory.limit != SIZE_MAX) {
    page.one("forerun_kv_limit_bytes", "gauge", "Keys and values at most", now.memory.limit);
  }
  page.one("forerun_kept_texts", "gauge", "Ended texts whose keys and values are kept",
           now.memory.prefixes);
  page.text += first_token_.text("forerun_time_to_first_token_seconds", "",
                                 "From the arrival of a request to its first token");
  page.text += between_tokens_.text("forerun_time_between_tokens_seconds", "",
                                    "A round's time, in equal parts for its tokens");
  page.text += request_seconds_.text("forerun_request_seconds", "",
                                     "From the arrival of a request to the end of its answer");
}

void Metrics::add_drafting(Page& page) const {
  const auto each = [&](const char* name, const char* help, auto member) {
    page.head(name, "counter", help);
    for (const auto& [drafter, d] : drafting_) {
      page.line(name, "drafter=" + label_value(drafter), d.*member);
    }
  };
  each("forerun_rounds_total", "Verifying passes, each text's counted", &Drafting::rounds);
  each("forerun_drafts_total", "Drafted tokens", &Drafting::drafted);
  each("forerun_drafts_kept_total", "Drafted tokens that were kept", &Drafting::kept);
  const auto by_position = [&](const char* name, const char* help, auto member) {
    page.head(name, "counter", help);
    for (const auto& [drafter, d] : drafting_) {
      const auto& counts = d.*member;
      for (std::size_t i = 0; i < counts.size(); ++i) {
        page.line(name, fmt::format("drafter={},position=\"{}\"", label_value(drafter), i),
                  counts[i]);
      }
    }
  };
  by_position("forerun_drafts_examined_by_position_total", "Drafts that the rule examined",
              &Drafting::examined_at);
  by_position("forerun_drafts_kept_by_position_total", "Drafts that were kept", &Drafting::kept_at);
}

// The names of other servers, where they mean the same.
void Metrics::add_aliases(Page& page, const Now& now, const std::string& model) const {
  const std::string label = "model_name=" + label_value(model);
  Drafting all;
  for (const auto& [drafter, d] : drafting_) {
    all.with_drafts += d.with_drafts;
    all.drafted += d.drafted;
    all.kept += d.kept;
    all.kept_at.resize(std::max(all.kept_at.size(), d.kept_at.size()));
    for (std::size_t i = 0; i < d.kept_at.size(); ++i) all.kept_at[i] += d.kept_at[i];
  }
  const auto vllm = [&](const char* name, const char* type, const char* help, auto value) {
    page.one(std::string("vllm:") + name, type, help, value, label);
  };
  vllm("num_requests_running", "gauge", "forerun_texts_running", now.memory.active);
  vllm("num_requests_waiting", "gauge", "forerun_texts_waiting", now.waiting);
  vllm("prompt_tokens_total", "counter", "forerun_prompt_tokens_total", prompt_tokens_);
  vllm("generation_tokens_total", "counter", "forerun_tokens_total", tokens_);
  vllm("prefix_cache_queries_total", "counter", "forerun_prompt_tokens_total", prompt_tokens_);
  vllm("prefix_cache_hits_total", "counter", "forerun_prompt_tokens_cached_total", cached_tokens_);
  vllm("spec_decode_num_drafts_total", "counter", "Rounds with drafts", all.with_drafts);
  vllm("spec_decode_num_draft_tokens_total", "counter", "forerun_drafts_total", all.drafted);
  vllm("spec_decode_num_accepted_tokens_total", "counter", "forerun_drafts_kept_total", all.kept);
  page.head("vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter",
            "forerun_drafts_kept_by_position_total");
  for (std::size_t i = 0; i < all.kept_at.size(); ++i) {
    page.line("vllm:spec_decode_num_accepted_tokens_per_pos_total",
              fmt::format("{},position=\"{}\"", label, i), all.kept_at[i]);
  }
  if (now.memory.limit != SIZE_MAX && now.memory.limit > 0) {
    vllm("kv_cache_usage_perc", "gauge", "Share of the keys and values that are used, 0 to 1",
         static_cast<double>(now.memory.used) / static_cast<double>(now.memory.limit));
  }
  page.text += first_token_.text("vllm:time_to_first_token_seconds", label,
                                 "forerun_time_to_first_token_seconds");
  page.text += between_tokens_.text("vllm:inter_token_latency_seconds", label,
                                    "forerun_time_between_tokens_seconds");
  page.text +=
      request_seconds_.text("vllm:e2e_request_latency_seconds", label, "forerun_request_seconds");
  page.one("llamacpp:prompt_tokens_total", "counter", "forerun_prompt_tokens_total",
           prompt_tokens_ - cached_tokens_);
  page.one("llamacpp:prompt_seconds_total", "counter", "forerun_prompt_seconds_total",
           prompt_seconds_);
  page.one("llamacpp:tokens_predicted_total", "counter", "forerun_tokens_total", tokens_);
  page.one("llamacpp:tokens_predicted_seconds_total", "counter", "forerun_generation_seconds_total",
           seconds_);
  page.one("llamacpp:requests_processing", "gauge", "forerun_texts_running", now.memory.active);
  page.one("llamacpp:requests_deferred", "gauge", "forerun_texts_waiting", now.waiting);
}

std::string Metrics::text(const Now& now, const std::string& model) const {
  Page page;
  add_ours(page, now);
  add_drafting(page);
  add_aliases(page, now, model);
  return page.text;
}

}  // namespace forerun::serve

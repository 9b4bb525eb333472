#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temp_folder.h"

namespace forerun::testing {

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at == text.npos) throw std::runtime_error("no " + std::string(from));
  return text.replace(at, from.size(), to);
}

/// Creates in `folder` a tiny model that chats: tests/data/tiny/llama_plain with a ChatML template,
/// some more end tokens, so that its random texts end, and the byte 0x1a among its tokens, which
/// most vocabularies have.
inline std::string make_chat_model(const std::filesystem::path& folder) {
  const std::filesystem::path from = FORERUN_SOURCE_DIR "/tests/data/tiny/llama_plain";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(from / "model.safetensors", folder / "model.safetensors");
  const auto write = [&](const char* name, const std::string& content) {
    std::ofstream(folder / name, std::ios::binary) << content;
  };
  write("config.json", replaced(read_file(from / "config.json"), "\"eos_token_id\": 2",
                                "\"eos_token_id\": [2, 110, 115, 120, 125, 130, 135, 140, 145]"));
  write("tokenizer.json", replaced(read_file(from / "tokenizer.json"), "<unused0>", "\u011a"));
  write("chat_template.jinja",
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
        "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
  return folder.string();
}

/// `count` texts: "question 0", "question 1", ...
inline std::vector<std::string> questions(int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.push_back("question " + std::to_string(i));
  return out;
}

}  // namespace forerun::testing

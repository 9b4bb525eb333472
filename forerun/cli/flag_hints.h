#pragma once

#include <span>
#include <string>
#include <string_view>

namespace forerun::cli {

/// What to give in place of a word that is none of a command's flags, for the line that refuses it:
/// llama.cpp's, vLLM's and SGLang's names are known, and names that are almost a flag's. "" =
/// nothing is known.
/// @param flags  the command's, as "--temp" and "-m"
std::string flag_hint(std::string_view word, std::span<const std::string> flags);

/// Whether a word is a flag of several letters after one dash in llama.cpp, which would be read as
/// flags of one letter here: "-hf" as -h.
bool is_foreign_short_flag(std::string_view word);

}  // namespace forerun::cli

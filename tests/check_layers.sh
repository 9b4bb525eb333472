#!/usr/bin/env bash
# Fails if an include points up: each layer may include itself and the layers left of it, the command only the public API.
set -euo pipefail
cd "$(dirname "$0")/.."

order=(base core formats tensor metrics models methods engine train api)
bad=0
complain() { echo "$1"; bad=1; }

for i in "${!order[@]}"; do
  layer=${order[$i]}
  allowed=$(IFS='|'; echo "${order[*]:0:$((i + 1))}")
  [ "$layer" = api ] && allowed="$allowed|(common|text|image|image_decoder|token_image|certificate|diffusion_text|train|evaluate|engine|method|model|generate_options|forerun)\.h"
  while IFS= read -r line; do
    complain "layer $layer includes upward: $line"
  done < <(grep -rnE '#include "forerun/' "forerun/$layer" | grep -vE "#include \"forerun/($allowed)[/\"]" || true)
done

while IFS= read -r line; do
  complain "another layer's internal part: $line"
done < <(grep -rnE '#include "forerun/[a-z]+/(.*/)?internal/' forerun |
         grep -vE '^forerun/([a-z]+)/.*#include "forerun/\1/' || true)

# tensor/precision.h holds an enum and is part of forerun.h; the command and the server include neither tensors nor layers
# below, and the server nothing of the command.
while IFS= read -r line; do
  complain "the command includes a layer below the public API: $line"
done < <(grep -rnE '#include "forerun/' forerun/cli forerun/serve |
         grep -vE '^forerun/cli/[^:]*:[0-9]+:#include "forerun/(cli/|serve/server\.h"|serve/served_model\.h")' |
         grep -vE '^forerun/serve/[^:]*:[0-9]+:#include "forerun/serve/' |
         grep -vE '#include "forerun/((common|text|image|image_decoder|token_image|certificate|diffusion_text|train|evaluate|engine|method|model|generate_options|forerun)\.h"|core/|base/)' || true)

while IFS= read -r line; do
  complain "the Python module includes what is not installed: $line"
done < <(grep -rnE '#include <forerun/' python/src |
         grep -vE '#include <forerun/((common|text|image|image_decoder|token_image|certificate|diffusion_text|train|evaluate|engine|method|model|generate_options|forerun)\.h|core/)' || true)

while IFS= read -r line; do
  complain "core knows tensors: $line"
done < <(grep -rnE '#include <(ATen|torch|c10)/' forerun/core forerun/formats forerun/cli forerun/serve forerun/*.h || true)

# models/dflash and models/medusa are exempt: checkpoints name what they hold so (draft_vocab_size, speculators_config, ...).
while IFS= read -r line; do
  complain "a model knows speculation: $line"
done < <(grep -rniE --exclude-dir=dflash --exclude-dir=medusa 'draft|specul|couple|accept' forerun/models forerun/tensor --include='*.h' --include='*.cpp' |
         grep -vE '_test\.cpp|[Aa]ccepts \(|rejected' || true)

# A public header pulls in no other one's world. The compiler lists what it includes; only the standard library's headers
# may be found beside ours.
includes() { "${CXX:-c++}" -std=c++20 -I. -MM "$1" | tr ' \\' '\n\n' | grep '^forerun/' | grep -vFx "$1"; }
check_header() {
  local header=$1 forbidden=$2 line
  while IFS= read -r line; do
    complain "$header includes $line"
  done < <(includes "$header" | grep -E "$forbidden" || true)
}
check_header forerun/common.h '^forerun/(text|image|train|evaluate)\.h|^forerun/(core|train)/'
check_header forerun/model.h '^forerun/(text|image|train|evaluate|engine|method)\.h|^forerun/(train|engine)/|core/(draft_length|rng_key|categorical|speculate)\.h'
check_header forerun/generate_options.h '^forerun/(text|image|train|evaluate|engine|method|model)\.h|^forerun/(train|engine)/|core/(draft_length|rng_key|categorical|speculate)\.h'
check_header forerun/engine.h '^forerun/(text|train|evaluate)\.h|^forerun/train/|core/(draft_length|rng_key|categorical|speculate)\.h'
check_header forerun/text.h '^forerun/(image|train|evaluate)\.h|^forerun/train/|core/(draft_length|rng_key|categorical|speculate)\.h'
check_header forerun/certificate.h '^forerun/(common|text|image|model|train|evaluate)\.h|^forerun/(train|engine)/|core/(draft_length|rng_key|gaussian|speculate)\.h'
check_header forerun/image.h '^forerun/(text|train|evaluate)\.h|^forerun/train/|core/(draft_length|rng_key|gaussian|speculate)\.h'
check_header forerun/token_image.h '^forerun/(text|train|evaluate)\.h|^forerun/train/|core/(draft_length|rng_key|gaussian|speculate)\.h'
check_header forerun/evaluate.h '^forerun/(text|image|train)\.h|^forerun/(core|train)/'

exit $bad

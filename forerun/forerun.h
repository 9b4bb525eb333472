#pragma once

/// The whole public API. forerun generates faster without changing what is generated.

#include "forerun/common.h"
#include "forerun/diffusion_text.h"
#include "forerun/engine.h"
#include "forerun/evaluate.h"
#include "forerun/image.h"
#include "forerun/image_decoder.h"
#include "forerun/method.h"
#include "forerun/text.h"
#include "forerun/token_image.h"
#include "forerun/train.h"

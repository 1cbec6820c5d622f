#ifndef FARANDOLE_SDK_CPP_FARANDOLE_FARANDOLE_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_FARANDOLE_H_

/// @file
/// Farandole for C++17 programs: all of it but farandole/torch.h and farandole/eigen.h, which need their libraries.
/// docs/cpp.md is the guide.
#include "farandole/arena.h"
#include "farandole/checkpoint.h"
#include "farandole/elastic.h"
#include "farandole/element.h"
#include "farandole/future.h"
#include "farandole/job.h"
#include "farandole/options.h"
#include "farandole/sampler.h"
#include "farandole/section.h"
#include "farandole/status.h"
#include "farandole/tensor.h"

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_FARANDOLE_H_

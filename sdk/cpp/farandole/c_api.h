#ifndef FARANDOLE_SDK_CPP_FARANDOLE_C_API_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_C_API_H_

// The C interface, under the path that it has where Farandole is installed: there this file is worker/farandole.h
// itself.
#include "worker/farandole.h"

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_C_API_H_

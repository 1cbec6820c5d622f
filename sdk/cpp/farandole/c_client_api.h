#ifndef FARANDOLE_SDK_CPP_FARANDOLE_C_CLIENT_API_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_C_CLIENT_API_H_

// Where the SDK is installed, the C interface of the control plane itself takes this file's place.
#include "worker/farandole_client.h"

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_C_CLIENT_API_H_

#ifndef FARANDOLE_BASE_TEXT_CLUSTER_OWNER_H_
#define FARANDOLE_BASE_TEXT_CLUSTER_OWNER_H_

namespace farandole {

// Owns what callers whose role sees all tenants have in use. No tenant is named so.
inline constexpr char kClusterOwner[] = "*";

}  // namespace farandole

#endif  // FARANDOLE_BASE_TEXT_CLUSTER_OWNER_H_

#ifndef FARANDOLE_TOOLS_REFERENCE_REFERENCE_H_
#define FARANDOLE_TOOLS_REFERENCE_REFERENCE_H_

#include <string>

namespace farandole {

// The pages of docs/ that follow from tables in the code, in Markdown.

// docs/metrics.md: the coordinator's metrics.
std::string MetricsPage();
// docs/settings.md: flags, environment variables and config file of `farandole serve`, and what workers read.
std::string SettingsPage();

}  // namespace farandole

#endif  // FARANDOLE_TOOLS_REFERENCE_REFERENCE_H_

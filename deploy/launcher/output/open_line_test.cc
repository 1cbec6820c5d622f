#include "deploy/launcher/output/open_line.h"

#include <string>

#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

const OpenLine::Writer kFirst(0, 0);
const OpenLine::Writer kSecond(1, 0);

TEST(OpenLineTest, AWriterGoesOnWithItsLine) {
  OpenLine line;
  std::string text = line.Continue(kFirst, "[0] ", ".");
  text += line.Continue(kFirst, "[0] ", "..");
  text += line.Complete(kFirst, "[0] ", "... done");
  text += line.Complete(kFirst, "[0] ", "next");
  EXPECT_EQ(text, "[0] ... done\n[0] next\n");
}

TEST(OpenLineTest, AnotherWritersLineBeginsANewOneAndNothingIsSaidTwice) {
  OpenLine line;
  std::string text = line.Continue(kFirst, "[0] ", "..");
  text += line.Complete(kSecond, "[1] ", "news");
  text += line.Continue(kFirst, "[0] ", "..");
  text += line.Continue(kFirst, "[0] ", "....");
  text += line.Complete(kSecond, "[1] ", "more");
  text += line.Complete(kFirst, "[0] ", "....");
  text += line.Complete(kFirst, "[0] ", "..");
  EXPECT_EQ(text, "[0] ..\n[1] news\n[0] ..\n[1] more\n[0] ..\n");
}

TEST(OpenLineTest, ALineThatIsWrittenAnewReplacesTheOldState) {
  OpenLine line;
  std::string text = line.Continue(kFirst, "[0] ", "10% slow");
  text += line.Continue(kFirst, "[0] ", "20%");
  text += line.Complete(kSecond, "[1] ", "news");
  text += line.Complete(kFirst, "[0] ", "30%");
  EXPECT_EQ(text, "[0] 10% slow\r[0] 20%     \n[1] news\n[0] 30%\n");
}

TEST(OpenLineTest, EndsOnlyWhatIsOpen) {
  OpenLine line;
  EXPECT_EQ(line.End(), "");
  line.Continue(kFirst, "", "x");
  EXPECT_EQ(line.End(), "\n");
  EXPECT_EQ(line.End(), "");
}

}  // namespace
}  // namespace farandole::launcher

import pathlib, sys
ROOT = pathlib.Path(sys.argv[1])

p = ROOT / "tests/tidy/test_tree.py"; t = p.read_text()
t = t.replace("import pytest\nfrom rules", "import pytest\nfrom folders import MAX_FOLDER_FILES, circles, crowded, folder_includes\nfrom rules")
t = t.replace('''def test_sources_are_formatted() -> None:''', '''def test_no_folders_include_each_other(tree: List[Source]) -> None:
    includes = folder_includes(tree)
    told = [
        "\\n".join(includes[folder][other] for folder in group for other in group if other in includes[folder])
        for group in circles(includes)
    ]
    assert not told, "move what both sides need into the lower folder:\\n" + "\\n\\n".join(told)


def test_a_folder_holds_one_idea(tree: List[Source]) -> None:
    told = crowded(tree)
    assert not told, f"{told}: {MAX_FOLDER_FILES} files are allowed; give the folder's second idea a folder of its own"


def test_sources_are_formatted() -> None:''')
p.write_text(t)
p = ROOT / "tests/tidy/test_rules.py"; t = p.read_text()
t = t.replace("import pytest\nimport rules\n", "import folders\nimport pytest\nimport rules\n") if "import pytest\nimport rules\n" in t else t
t += '''

def test_folders_that_reach_each_other_are_found() -> None:
    tree = [
        Source("worker/a/a.h", '#include "worker/b/b.h"\\n'),
        Source("worker/b/b.h", '#include "worker/c/c.h"\\n#include "worker/d/d.h"\\n'),
        Source("worker/c/c.cc", '// #include "worker/d/d.h"\\n#include "worker/a/a.h"\\n#include "worker/c/c.h"\\n'),
        Source("worker/d/d.h", "#include <vector>\\n"),
    ]
    assert folders.circles(folders.folder_includes(tree)) == [["worker/a", "worker/b", "worker/c"]]
    assert not folders.circles(folders.folder_includes(tree[:2] + tree[3:]))


def test_a_crowded_folder_is_found() -> None:
    tree = [Source(f"worker/a/{index}.cc", "") for index in range(folders.MAX_FOLDER_FILES + 1)]
    assert folders.crowded(tree) == {"worker/a": folders.MAX_FOLDER_FILES + 1}
    assert not folders.crowded(tree[1:] + [Source("worker/a/data.txt", "")])
'''
p.write_text(t)

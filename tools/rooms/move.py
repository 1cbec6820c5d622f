"""Moves files into rooms and rewrites includes, guards, paths and Bazel targets. Run in a clean checkout: move.py ROOT."""
import ast, collections, fnmatch, pathlib, re, subprocess, sys
ROOT = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from plan import *

def git(*a): return subprocess.run(["git", *a], cwd=ROOT, capture_output=True, text=True, check=True).stdout
files = git("ls-files").split("\n")[:-1]
moves = {}
for f in files:
    if f.endswith("BUILD.bazel"): continue
    new = EXTRA_MOVES.get(f) or room(f)
    if "?" in new: sys.exit(f"no room for {f}")
    if new != f: moves[f] = new
print(len(moves), "files move")

# ---- BUILD files: rules as data -----------------------------------------------------------------------------------
class Rule:
    def __init__(self, pkg, kind, attrs, comment, text, loop=None):
        self.pkg, self.kind, self.attrs, self.comment, self.text, self.loop = pkg, kind, attrs, comment, text, loop
    @property
    def name(self): return self.attrs["name"]
def parse_build(path):
    text = path.read_text(); lines = text.split("\n")
    tree = ast.parse(text); rules, heads = [], []
    pkg = str(path.parent.relative_to(ROOT))
    for node in tree.body:
        first = node.lineno - 1
        comment = []
        i = first - 1
        while i >= 0 and lines[i].startswith("#"): comment.insert(0, lines[i]); i -= 1
        src = "\n".join(lines[first:node.end_lineno])
        v = getattr(node, "value", None)
        if isinstance(v, ast.Call) and isinstance(v.func, ast.Name) and v.func.id in ("cc_library", "cc_test", "cc_binary", "genrule"):
            # inner comments per attribute
            attrs, inner = {}, {}
            for kw in v.keywords:
                seg = ast.get_source_segment(text, kw.value)
                try: val = ast.literal_eval(kw.value)
                except Exception: val = ("RAW", seg)
                if not isinstance(val, (str, list, bool, int, tuple)): val = ("RAW", seg)
                if isinstance(val, (str, list)) and "\n" in seg and "#" in seg: val = ("RAW", seg)
                attrs[kw.arg] = val
                c = []; j = kw.value.lineno - 2
                while lines[j].strip().startswith("#"): c.insert(0, lines[j].strip()); j -= 1
                if c: inner[kw.arg] = c
            r = Rule(pkg, v.func.id, attrs, comment, src); r.inner = inner
            rules.append(r)
        elif isinstance(v, ast.ListComp):
            call = v.elt
            attrs = {}
            for kw in call.keywords:
                try: val = ast.literal_eval(kw.value)
                except Exception: val = ("RAW", ast.get_source_segment(text, kw.value))
                attrs[kw.arg] = val
            names = ast.literal_eval(v.generators[0].iter)
            if isinstance(names, (list, tuple)) and names and isinstance(names[0], tuple):
                target = [e.id for e in v.generators[0].target.elts]
                for values in names:
                    env = dict(zip(target, values))
                    attrs = {kw.arg: eval(compile(ast.Expression(kw.value), "", "eval"), {}, env) for kw in call.keywords}
                    if not attrs.get("tags", True): attrs.pop("tags")
                    r = Rule(pkg, call.func.id, attrs, [], src); r.inner = {}; rules.append(r)
                continue
            r = Rule(pkg, "LOOP", {"name": names[0]}, comment, src, loop=(list(names)))
            r.inner = {}
            rules.append(r)
        else:
            heads.append((comment, src))
    return rules, heads
def files_of(rule):
    out = []
    if rule.kind == "LOOP": return [f"{rule.pkg}/{n}.cc" for n in rule.loop]
    for a in ("srcs", "hdrs", "textual_hdrs"):
        v = rule.attrs.get(a)
        if isinstance(v, list): out += [f"{rule.pkg}/{x}" for x in v if not x.startswith((":", "//", "@"))]
    return out
def absolute(label, pkg):
    if label.startswith(":"): return f"//{pkg}{label}"
    if label.startswith("//") and ":" not in label: return label + ":" + label.rsplit("/", 1)[1]
    if label.startswith(("@", "//")): return label
    return label
def short(label, pkg):
    if not label.startswith("//"): return label
    p, n = label[2:].split(":")
    if p == pkg: return ":" + n
    if p.rsplit("/", 1)[-1] == n: return "//" + p
    return label

builds = [ROOT / f for f in files if f.endswith("BUILD.bazel")]
parsed = {}
for b in builds:
    if b.parent == ROOT or "third_party" in str(b): continue
    parsed[str(b.parent.relative_to(ROOT))] = parse_build(b)
affected_pkgs = {str(pathlib.PurePosixPath(f).parent) for f in moves} | {str(pathlib.PurePosixPath(f).parent) for f in moves.values()}
def matches(f, p): return str(pathlib.PurePosixPath(f).parent) == p[:-2] if p.endswith("/*") else fnmatch.fnmatch(f, p)
# new targets
new_rules = collections.defaultdict(list)   # pkg -> rules
label_map = collections.defaultdict(list)   # old label -> new labels
for pkg, (rules, _) in parsed.items():
    for r in rules:
        old = f"//{pkg}:{r.name}"
        if old in DROP_RULES: continue
        if old in SPLITS:
            for newlabel, pats in SPLITS[old].items():
                np, nn = newlabel[2:].split(":")
                attrs = dict(r.attrs); attrs["name"] = nn
                mine = [f for f in files_of(r) if (moves.get(f, f)) and any(matches(moves.get(f, f), p) for p in pats)]
                extra = [f for f in SPLITS[old][newlabel] if f.startswith("+")]
                mine += [f[1:] for f in extra]
                for a in ("srcs", "hdrs"): attrs.pop(a, None)
                srcs = sorted(f for f in mine if f.endswith((".cc", ".lds")))
                hdrs = sorted(f for f in mine if f.endswith(".h"))
                hidden = [f for f in hdrs if pathlib.PurePosixPath(f).name in (r.attrs.get("srcs") or [])] if False else []
                if srcs: attrs["srcs"] = srcs
                if hdrs: attrs["hdrs"] = hdrs
                n = Rule(np, r.kind, attrs, r.comment if nn == r.name else [], r.text); n.inner = r.inner; n.split = True; n.oldpkg = pkg
                n.files = srcs + hdrs
                if "alwayslink" in attrs and not nn.startswith("abi"): attrs.pop("alwayslink")
                new_rules[np].append(n); label_map[old].append(newlabel)
            continue
        fs = files_of(r)
        np = RULE_ROOMS.get(old)
        if np is None and not any(f in moves for f in fs): np = pkg
        if np is None:
            rooms = {str(pathlib.PurePosixPath(moves.get(f, f)).parent) for f in fs if f in files}
            if len(rooms) > 1: sys.exit(f"{old}: files in several rooms {rooms}: { {f: moves.get(f) for f in fs} }")
            np = rooms.pop() if rooms else pkg
        nn = TARGET_NAMES.get(old, r.name)
        attrs = dict(r.attrs); attrs["name"] = nn
        for a in ("srcs", "hdrs", "textual_hdrs"):
            if isinstance(attrs.get(a), list):
                attrs[a] = [f"{pkg}/{x}" if not x.startswith((":", "//", "@")) else absolute(x, pkg) for x in attrs[a]]
        n = Rule(np, r.kind, attrs, r.comment, r.text, r.loop); n.inner = r.inner; n.split = False; n.oldpkg = pkg; n.files = fs
        new_rules[np].append(n); label_map[old].append(f"//{np}:{nn}")
# header -> label
owner = {}
for pkg, rs in new_rules.items():
    for r in rs:
        if r.kind == "cc_library":
            for a in ("hdrs", "srcs"):
                v = r.attrs.get(a)
                if isinstance(v, list):
                    for f in v:
                        if f.endswith(".h"): owner.setdefault(moves.get(f, f), f"//{pkg}:{r.attrs['name']}")
EXTERNAL = [(r"absl/", "@system//:absl"), (r"nlohmann/", "@system//:json"), (r"openssl/", "@system//:ssl"), (r"gtest|gmock", "@system//:gtest"),
            (r"farandole/v1/", "//proto:farandole_cc"), (r"pmix", "@pmix//:headers"), (r"google/protobuf|grpc", "@system//:grpc")]
inv = {v: k for k, v in moves.items()}
def includes(fs):
    out = set()
    for f in fs:
        p = ROOT / f
        if p.exists() and f.endswith((".cc", ".h", ".cu")): out |= set(re.findall(r'#include [<"]([^">]+)[">]', p.read_text()))
    return out
def new_deps(r):
    pkg, me = r.pkg, f"//{r.pkg}:{r.attrs['name']}"
    old = r.attrs.get("deps") or []
    if not isinstance(old, list): return old
    inc = {moves.get(i, i) for i in includes(r.files)}
    by_inc = {owner[i] for i in inc if i in owner}
    res = set()
    for d in old:
        d = absolute(d, r.oldpkg)
        new = label_map.get(d, [d])
        if len(new) > 1 or r.split:
            kept = [n for n in new if n in by_inc]
            if not d.startswith("@") and d in label_map and not kept and not r.split: kept = new[:1] if d != "//worker:worker" else ["//worker/abi:abi"]
            if d.startswith("@") or d == "//proto:farandole_cc":
                pats = [p for p, l in EXTERNAL if l == d]
                kept = [d] if not pats or any(re.match(p, i) for p in pats for i in inc) else []
            elif d not in label_map: kept = [d]
            res |= set(kept)
        else: res |= set(new)
    if r.split or any(len(label_map.get(absolute(d, r.oldpkg), [])) > 1 for d in old): res |= by_inc
    if r.split:
        res |= {l for p, l in EXTERNAL if any(re.match(p, i) for i in inc) and l in ("@system//:absl", "//proto:farandole_cc")}
    res.discard(me)
    return sorted(res)
def sort_key(l):
    return (0 if l.startswith(":") else 1 if l.startswith("//") else 2, l)
def fmt_value(v, indent="    "):
    if isinstance(v, tuple) and v and v[0] == "RAW": return v[1]
    if isinstance(v, bool): return "True" if v else "False"
    if isinstance(v, (int,)): return str(v)
    if isinstance(v, str): return '"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if len(v) == 1: return f'["{v[0]}"]'
    q = lambda x: '"' + x.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "[\n" + "".join(f"{indent}    {q(x)},\n" for x in v) + f"{indent}]"
ORDER = ["name", "size", "testonly", "srcs", "outs", "hdrs", "textual_hdrs", "cmd", "copts", "data", "linkopts", "linkshared", "linkstatic", "message", "tags", "visibility", "deps", "alwayslink"]
def render(r, pkg, head):
    out = list(r.comment)
    if r.kind == "LOOP":
        t = r.text
        for lab in re.findall(r'"((?://|:)[\w/:.]+)"', t):
            new = label_map.get(absolute(lab, r.oldpkg))
            if new is None: continue
            if len(new) > 1:
                inc = {moves.get(i, i) for i in includes(r.files)}; by = {owner[i] for i in inc if i in owner}
                new = [n for n in new if n in by] or new
            t = re.sub(r'( *)"' + re.escape(lab) + '",\n', lambda m: "".join(f'{m[1]}"{short(n, pkg)}",\n' for n in new), t)
        return "\n".join(out + [t])
    a = dict(r.attrs)
    for k in ("srcs", "hdrs", "textual_hdrs"):
        if isinstance(a.get(k), list):
            vals = []
            for f in a[k]:
                if f.startswith(("//", "@")):
                    vals += [short(n, pkg) for n in label_map.get(f, [f])]; continue
                n = moves.get(f, f); p = pathlib.PurePosixPath(n)
                vals.append(p.name if str(p.parent) == pkg else f"//{p.parent}:{p.name}")
            a[k] = sorted(vals) if len(vals) > 1 else vals
    d = new_deps(r)
    if d: a["deps"] = sorted((short(x, pkg) for x in d), key=sort_key) if isinstance(d, list) else d
    elif "deps" in a: del a["deps"]
    if isinstance(a.get("linkopts"), list):
        a["linkopts"] = a["linkopts"]
    if "visibility" in a and isinstance(a["visibility"], list):
        if head and "//visibility:public" not in a["visibility"]: a.pop("visibility")
    out.append(f"{r.kind}(")
    for k in [k for k in ORDER if k in a] + [k for k in a if k not in ORDER]:
        for c in r.inner.get(k, []): out.append("    " + c)
        out.append(f"    {k} = {fmt_value(a[k])},")
    out.append(")")
    return "\n".join(out)

AUTO = ("worker", "server/job") + AUTO_EXTRA
consumers = collections.defaultdict(set)
for pkg, rs in new_rules.items():
    for r in rs:
        ds = new_deps(r) if r.kind != "LOOP" else []
        if not isinstance(ds, list):
            ds = [n for lab in re.findall(r'"((?://|:)[\w/:.]+)"', ds[1]) for n in label_map.get(absolute(lab, r.oldpkg), [absolute(lab, r.oldpkg)])]
        ds = list(ds)
        if r.kind == "LOOP":
            for lab in re.findall(r'"((?://|:)[\w/:.]+)"', r.text): ds += label_map.get(absolute(lab, r.oldpkg), [absolute(lab, r.oldpkg)])
        for d in ds:
            if isinstance(d, str) and d.startswith("//"):
                p = d[2:].split(":")[0]
                if p != pkg: consumers[p].add(pkg)
for pkg in new_rules:
    if pkg.startswith(AUTO) and pkg not in ("worker", "server/job") and (pkg in affected_pkgs or pkg.startswith("worker/")):
        PACKAGE_HEADS[pkg] = [f"//{c}:__pkg__" for c in sorted(consumers[pkg])] or ["//visibility:private"]
# Which packages change: those that gain or lose files, or whose deps name a label that moved.
texts = {}
for pkg in sorted(set(parsed) | set(new_rules)):
    rs = new_rules.get(pkg, [])
    head = PACKAGE_HEADS.get(pkg)
    if pkg in affected_pkgs:
        parts = []
        heads = parsed.get(pkg, ([], []))[1]
        if head: parts.append("package(default_visibility = " + fmt_value(head, "") + ")")
        for c, s in heads:
            if head and s.startswith("package("): continue
            parts.append("\n".join(c + [s]))
        parts += [render(r, pkg, head) for r in rs]
        if parts: texts[pkg] = "\n\n".join(parts) + "\n"
        else: texts[pkg] = None
    else:
        # only labels
        t0 = (ROOT / pkg / "BUILD.bazel").read_text(); t = t0
        for r in rs:
            for lab in set(re.findall(r'"((?://)[\w/:.]+)"', r.text)):
                new = label_map.get(absolute(lab, pkg))
                if not new or new == [absolute(lab, pkg)]: continue
                if len(new) > 1:
                    inc = {moves.get(i, i) for i in includes(r.files)}; by = {owner[i] for i in inc if i in owner}
                    new = [n for n in new if n in by] or (["//worker/abi:abi"] if lab == "//worker" else new[:1])
                    if r.name == "stepping_worker" : new = ["//worker/abi:abi"]
                block = r.text; nb = re.sub(r'( *)"' + re.escape(lab) + '"(,?)(\n?)', lambda m: m[3].join([]) + ("\n".join(f'{m[1]}"{short(n, pkg)}",' for n in new) + m[3] if m[2] else f'"{short(new[0], pkg)}"'), block)
                t = t.replace(block, nb); r.text = nb
        if head:
            t = re.sub(r"\A(package\(default_visibility = .*?\]\)\n\n)?", lambda m: "package(default_visibility = " + fmt_value(head, "") + ")\n\n", t, flags=re.S)
            t = re.sub(r"    visibility = \[(?!\"//visibility:public)[^\]]*\],\n", "", t)
            t = re.sub(r"    visibility = \[\"//visibility:public\"\],\n", "", t) if pkg == "worker/kernels" else t
        if t != t0: texts[pkg] = t

for pkg, t in list(texts.items()):
    if t is None: continue
    def one(m):
        n = label_map.get(absolute(m[1], pkg))
        if m[1] == "//worker": return '"//worker/abi"'
        return f'"{short(n[0], pkg)}"' if n and len(n) == 1 else m[0]
    texts[pkg] = re.sub(r'"(//(?:worker|server)[\w/]*(?::[\w.]+)?)"', one, t)
# ---- apply -------------------------------------------------------------------------------------------------------
for old, new in moves.items():
    (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
    git("mv", old, new)
for pkg, t in texts.items():
    p = ROOT / pkg / "BUILD.bazel"
    if t is None:
        if p.exists(): git("rm", "-qf", str(p.relative_to(ROOT)))
        continue
    p.parent.mkdir(parents=True, exist_ok=True)
    p.write_text(t); git("add", str(p.relative_to(ROOT)))
def guard(p): return "FARANDOLE_" + re.sub(r"[^A-Z0-9]", "_", p.upper()) + "_"
guards = {guard(o): guard(n) for o, n in moves.items() if o.endswith(".h")}
path_re = re.compile(r"(?<![\w/.-])(?:worker|server|deploy|base|tests)/[\w/]+\.(?:cc|h|cu|lds|txt)\b")
guard_re = re.compile(r"\bFARANDOLE_[A-Z0-9_]+_H_\b")
label_re = re.compile(r"//(?:worker|server|deploy)[\w/]*(?::[\w.]+)?")
for f in git("ls-files").split("\n")[:-1]:
    if f.endswith((".png", ".svg", ".bin", ".ico")) or f.startswith("third_party/clang"): continue
    p = ROOT / f
    try: t0 = p.read_text()
    except Exception: continue
    t = path_re.sub(lambda m: moves.get(m[0], m[0]), t0)
    if f.endswith(".h") or f.endswith(".cc"): t = guard_re.sub(lambda m: guards.get(m[0], m[0]), t)
    if not f.endswith("BUILD.bazel"):
        def lab(m):
            l = absolute(m[0], ""); n = label_map.get(l)
            return short(n[0], "") if n and n != [l] and not m[0].startswith("///") else m[0]
        if f in ("Makefile", ".bazelrc") or f.startswith(("tools/", "docs/", "README", "tests/")): t = label_re.sub(lab, t)
    for pat, rep in RENAMES:
        if fnmatch.fnmatch(f, pat[0]): t = t.replace(pat[1], rep)
    if t != t0: p.write_text(t)
print("done")

"""Turns the times of the rounds into the table that compare.py prints."""

import dataclasses
import statistics


def ratio(theirs, ours):
    """Median and range of their time over ours, round by round."""
    values = [t / o for t, o in zip(theirs, ours)]
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def rows_of_table(times, labels):
    """One row per case and kind of logits: medians in ms, ratios by label, and the label of the fastest llama.cpp."""
    rows = []
    for case, by_label in times.items():
        ours = by_label["forerun"]["all"]
        for logits in ("all", "last"):
            theirs = {label: by_label.get(label, {}).get(logits) for label in labels}
            if not all(theirs.values()):
                continue
            ms = {label: statistics.median(values) for label, values in theirs.items()}
            rows.append({
                **dataclasses.asdict(case), "case": str(case), "logits_of_llama_cpp": logits,
                "ms": {"forerun": statistics.median(ours), **ms},
                "ratio": {label: ratio(values, ours) for label, values in theirs.items()},
                "best": min(ms, key=ms.get),
                "rounds": {"forerun": ours, **theirs},
            })
    return rows


def table(rows, labels):
    w, columns = 34, ["forerun", *labels]

    def cells(values):
        return "".join(f"{v:>9}" for v in values)

    out = [
        f"{'':{w}}{'ms of a pass':>{9 * len(columns)}}  |   time of llama.cpp / time of forerun",
        f"{'':{w}}{cells(columns)}  |{cells(labels)}   fastest of them",
    ]
    for r in rows:
        name = r["case"] if r["logits_of_llama_cpp"] == "all" else "  llama.cpp: last logits only (a)"
        best = r["ratio"][r["best"]]
        out.append(
            f"{name:{w}}" + cells(f"{r['ms'][c]:.2f}" for c in columns) + "  |" +
            cells(f"{r['ratio'][c]['median']:.2f}" for c in labels) +
            f"   {best['median']:.2f} [{best['low']:.2f}, {best['high']:.2f}]")
    out += ["", f"{'tokens a second':{w}}{cells(columns)}"]
    for r in rows:
        if r["kind"] == "decode" or (r["kind"] == "prefill" and r["logits_of_llama_cpp"] == "last"):
            name = r["case"] + (" (a)" if r["kind"] == "prefill" else "")
            out.append(f"{name:{w}}" + cells(f"{1e3 * r['rows'] / r['ms'][c]:.1f}" for c in columns))
    return out


def heading(about, rounds):
    peers = about["llama.cpp"]
    first = next(iter(peers.values()))
    sizes = ", ".join(f"{label} {note['weight_bytes'] / 1e6:.0f}" for label, note in peers.items())
    ours, others = about["forerun"], about["others"]
    out = [
        f"{ours['version']} ({ours['precision']}) beside llama.cpp {first['llama_cpp']} (llama-cpp-python "
        f"{first['package']}, flash_attn {first['flash_attn']}), {about['date']}",
        f"{about['cpu']}, {about['threads']} threads; load {about['load_before']:.2f} before, "
        f"{about['load_after']:.2f} after; {others['disturbed']} of {others['measurements']} measurements "
        f"disturbed: other work took over {others['limit']:.0%} of the CPUs",
        f"{about['model']}; MB of weights: forerun {ours['weight_bytes'] / 1e6:.0f}, {sizes}",
        f"medians of {rounds} round{'' if rounds == 1 else 's'}, each a median of {about['repeats']} passes; "
        "ratios with [lowest, highest] round",
    ]
    if about["environment"]:
        out.append("set in the environment: " + " ".join(f"{k}={v}" for k, v in about["environment"].items()))
    return out


FOOTNOTES = [
    "",
    "Every pass computes the logits of all its rows, as checking a draft needs, but in lines (a): there llama.cpp",
    "computes those of the last row alone, all that a prompt needs (a draft needs more), while forerun computes all:",
    "that is to forerun's disadvantage. Weights differ in type, so outputs differ too; quality is not compared here.",
]

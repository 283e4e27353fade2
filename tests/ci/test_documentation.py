"""The pages name what the code has, with the defaults it has, and the examples work."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import click
import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from gate.cli import cli
from gate.cli.run import command as run_command
from gate.config import CRITERIA, Settings, load
from gate.coverage import criterion
from gate.domains.image.limits import Domain
from gate.metrics.catalogue import CATALOGUE
from gate.policy.load import load_policy, shipped_policies
from gate.policy.schema import Arms, Judging, Policy, Rule, Waiver
from gate.result import Status, Verdict, exit_code_of

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
ACTION: dict[str, Any] = YAML(typ="safe").load(ROOT / "action.yml")
GITLAB: dict[str, Any] = YAML(typ="safe").load(ROOT / ".gitlab-ci-template.yml")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def rows(text: str) -> dict[str, list[str]]:
    """First cell of every table row, without its backticks, and the cells after it."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) > 1:
            found.setdefault(cells[0].strip("`"), cells[1:])
    return found


def section(text: str, title: str) -> str:
    """From a heading to the next heading."""
    return re.split(r"^#+ ", text.split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def leaves(model: BaseModel, prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        found.update(leaves(value, f"{prefix}{name}.") if isinstance(value, BaseModel) else {prefix + name: value})
    return found


def written(value: Any) -> str:
    """A default as the tables write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(written(item) for item in value)}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def code_blocks(text: str, title: str) -> list[str]:
    return re.findall(rf'```yaml title="{re.escape(title)}"\n(.*?)```', text, re.DOTALL)


def test_every_setting_stands_in_the_configuration_page_with_its_default() -> None:
    table = rows(page("configuration.md"))
    assert {key: table.get(key, ["missing"])[0] for key in leaves(Settings())} == {
        key: written(value) for key, value in leaves(Settings()).items()
    }


def test_the_configuration_page_names_no_setting_that_does_not_exist() -> None:
    general, sections = set(Settings.model_fields), {name for name, value in Settings() if isinstance(value, BaseModel)}
    named = {key for key, cells in rows(page("configuration.md")).items() if len(cells) == 2 and re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", key)}
    assert named - {"key"} <= set(leaves(Settings())) | general - sections


def test_every_key_of_a_policy_stands_in_its_page() -> None:
    text = page("policies.md")
    assert {"extends", *Policy.model_fields} <= set(rows(section(text, "Keys of the file")))
    assert set(Rule.model_fields) == set(rows(section(text, "Keys of a rule"))) - {"key", "---"}
    assert set(Waiver.model_fields) == set(rows(section(text, "Keys of a waiver"))) - {"key", "---"}
    defaults = {f"arms.{key}": value for key, value in leaves(Arms()).items()}
    defaults |= {f"judging.{key}": value for key, value in leaves(Judging()).items()}
    table = rows(section(text, "`arms` and `judging`"))
    assert {key: table[key][0] for key in defaults} == {key: written(value) for key, value in defaults.items()}


def test_every_limit_of_the_domain_stands_in_the_policies_page_with_its_default() -> None:
    table = rows(section(page("policies.md"), "`domain`"))
    limits = leaves(Domain())
    assert {key: table.get(key, ["missing"])[0] for key in limits} == {key: written(value) for key, value in limits.items()}
    assert set(table) - {"key", "---"} == set(limits)


def test_every_shipped_policy_is_described() -> None:
    assert set(rows(section(page("policies.md"), "Shipped policies"))) - {"name", "---"} == set(shipped_policies())


def test_every_metric_stands_in_the_metrics_page_with_its_unit() -> None:
    table = rows(page("metrics.md"))
    assert set(CATALOGUE) <= set(table)
    for name, cells in table.items():
        if name in CATALOGUE and len(cells) == 3:
            assert cells[0] == CATALOGUE[name].unit, name


def test_slices_in_the_metrics_page_are_those_of_the_catalogue() -> None:
    said = {
        name.strip("` "): {
            "class" if w == "class" else w.replace("operator family", "family").replace("-", "_").replace(" ", "_") for w in words
        }
        for names, (listed,) in rows(section(page("metrics.md"), "Slices")).items()
        if names not in ("metric", "---")
        for name in names.split(",")
        for words in [listed.split(", ")]
    }
    assert said == {name: set(spec.slices) for name, spec in CATALOGUE.items() if spec.slices}


@pytest.mark.parametrize("path", ["README.md", "docs/ci.md"])
def test_exit_codes_are_those_of_the_gate(path: str) -> None:
    table = rows((ROOT / path).read_text(encoding="utf-8"))
    assert {code: table[code][0] for code in "01234"} == {**{str(exit_code_of(v)): v.value for v in Verdict}, "2": ""}


def test_every_status_of_a_rule_is_explained() -> None:
    assert set(rows(section(page("report.md"), "Statuses of a rule"))) - {"status", "---"} == {status.value for status in Status}


def test_the_architecture_page_lists_the_rooms_in_the_order_that_is_checked() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = [name for layer in settings["tool"]["importlinter"]["contracts"][0]["layers"] for name in layer.split(" | ")]
    rooms = "\n".join(rows(section(page("architecture.md"), "Rooms")))
    listed = [f"gate.{name}" for name in re.findall(r"gate/([a-z_]+)", rooms)]
    assert listed == layers


def test_every_part_of_the_report_is_explained() -> None:
    folder = ROOT / "gate" / "report" / "templates"
    report = (folder / "report.html.j2").read_text(encoding="utf-8")
    included = re.findall(r'{% include "([^"]+)" %}', report)
    template = "\n".join([report, *((folder / name).read_text(encoding="utf-8") for name in included)])
    titles = {title.split(":")[0] for title in re.findall(r"<h2[^>]*>([^<]+)</h2>", template)}
    parts = page("report.md").split("## Statuses")[0]
    assert len(titles) > 5
    assert titles <= set(rows(parts))


def test_every_input_and_output_of_the_action_is_explained() -> None:
    table = rows(section(page("ci.md"), "GitHub Actions"))
    inputs = {name: str(spec.get("default", "")) for name, spec in ACTION["inputs"].items()}
    assert {name: table.get(name, ["missing"])[0] for name in inputs} == inputs
    assert set(table) - {"input", "output", "---"} == {*inputs, *ACTION["outputs"]}


def options_of_run() -> set[str]:
    return {option for parameter in run_command.params for option in (*parameter.opts, *parameter.secondary_opts)}


def test_the_ci_files_and_the_configuration_page_have_every_option_of_gate_run() -> None:
    options = options_of_run() - {"--help", "--show-config", "--publish", "--no-publish"}
    own = {"working-directory", "install", "python-version", "artifact-name", "publish"}
    assert {f"--{name}" for name in ACTION["inputs"] if name not in own} == options
    variables = {name.removeprefix("FUZZGATE_").lower().replace("_", "-") for name in GITLAB["variables"]}
    assert {f"--{name}" for name in variables - {"install", "publish"}} == options - {"--out"}
    assert set(re.findall(r"`(--[a-z-]+)`", section(page("configuration.md"), "The command line"))) == options_of_run() - {"--help"}


@pytest.mark.parametrize("path", [ROOT / "README.md", *PAGES], ids=lambda path: path.name)
def test_every_command_on_a_page_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    called = re.findall(r"(?:^\$ (?:\.venv/bin/)?|`)gate ([a-z][a-z-]*)((?: +[^ #`\n]+)*)", text, re.MULTILINE)
    for name, rest in called:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, name
        words = rest.split()
        if isinstance(command, click.Group) and words:
            command = command.get_command(click.Context(command), words[0])
            assert command is not None, f"{name} {rest}"
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= known | {"--help"}, f"{name} {rest}"


@pytest.mark.parametrize("name", ["README.md", "docs/getting-started.md", "docs/configuration.md"])
def test_settings_shown_on_a_page_load(tmp_path: Path, name: str) -> None:
    blocks = code_blocks((ROOT / name).read_text(encoding="utf-8"), "gate.yaml")
    assert blocks
    for block in blocks:
        (tmp_path / "gate.yaml").write_text(block, encoding="utf-8")
        assert load(tmp_path / "gate.yaml", environment={}).settings.data.seeds


def test_the_example_settings_load() -> None:
    settings = load(ROOT / "examples" / "gate.yaml", environment={}).settings
    assert settings.model == "models:/digits@candidate"
    assert settings.classes is not None
    assert len(settings.classes) == 10


def test_policies_shown_on_the_page_load(tmp_path: Path) -> None:
    for block in code_blocks(page("policies.md"), "policy.yaml"):
        (tmp_path / "policy.yaml").write_text(block, encoding="utf-8")
        assert load_policy(str(tmp_path / "policy.yaml")).policy.waivers


@pytest.mark.parametrize(
    ("schema", "files", "title"),
    [
        ("vendor.github-workflows", ["examples/github/gate.yml"], ".github/workflows/gate.yml"),
        ("vendor.gitlab-ci", ["examples/gitlab/.gitlab-ci.yml"], ".gitlab-ci.yml"),
    ],
)
def test_ci_files_shown_are_valid_and_use_what_exists(tmp_path: Path, schema: str, files: list[str], title: str) -> None:
    paths = [ROOT / name for name in files]
    for number, block in enumerate(code_blocks(page("ci.md"), title)):
        paths.append(tmp_path / f"{number}.yml")
        paths[-1].write_text(block, encoding="utf-8")
    assert len(paths) > len(files)
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for path in paths:
        content: dict[str, Any] = YAML(typ="safe").load(path)
        for job in [*content.get("jobs", {}).values(), *(value for value in content.values() if isinstance(value, dict))]:
            for step in job.get("steps", []):
                if "fuzzgate" in step.get("uses", ""):
                    assert set(step["with"]) <= set(ACTION["inputs"])
            if job.get("extends"):
                assert job["extends"] in GITLAB
            used = {name for name in job.get("variables", {}) if name.startswith("FUZZGATE_")}
            assert used <= set(GITLAB["variables"])
        assert {name for name in content.get("variables", {}) if name.startswith("FUZZGATE_")} <= set(GITLAB["variables"])


@pytest.mark.parametrize("path", [ROOT / "README.md", *PAGES], ids=lambda path: path.name)
def test_every_local_link_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


class _References(HTMLParser):
    """Everything a browser would fetch while it shows the page."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "link" and values.get("rel") in ("canonical", "prev", "next"):
            return
        name = {"script": "src", "img": "src", "iframe": "src", "link": "href"}.get(tag)
        if name and values.get(name):
            self.fetched.append(str(values[name]))


def test_the_site_builds_strictly_and_fetches_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = sorted((tmp_path / "site").rglob("*.html"))
    assert {path.stem for path in PAGES} <= {path.stem for path in built}
    for path in built:
        references = _References()
        references.feed(path.read_text(encoding="utf-8"))
        assert not [url for url in references.fetched if url.startswith(("http:", "https:", "//"))], path.name


def test_the_notebook_on_the_coverage_page_runs(tmp_path: Path) -> None:
    one, several = re.findall(r'```python title="(?:a notebook|several at once)"\n(.*?)```', page("coverage.md"), re.DOTALL)
    (tmp_path / "notebook.py").write_text(one + several, encoding="utf-8")
    done = subprocess.run([sys.executable, "notebook.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    first, *suite, merged = (line.split() for line in done.stdout.splitlines())
    value, covered, total = first[:3]
    assert 0 < float(value) < 1
    assert 0 < int(covered) < int(total) == 32 * 100
    assert [line[0] for line in suite] == ["kmnc", "nbc", "dsa"]
    assert all(0 < int(line[2]) <= int(line[3]) for line in suite)
    assert merged[0] == suite[0][2]


def test_the_coverage_page_names_every_criterion_with_the_options_and_defaults_it_has() -> None:
    table = rows(section(page("coverage.md"), "Criteria"))
    assert [name for name in table if name in CRITERIA] == sorted(CRITERIA, key=list(table).index)
    for name in CRITERIA:
        for option, default in criterion(name).options.items():
            if name not in ("snac", "dsa", "mdsa"):
                assert f"`{option}`" in table[name][-1] or name == "lsa", (name, option, default)

"""A scripted agent: three questions of an operator, answered by tools alone."""

import json
from collections.abc import AsyncIterator
from typing import Any

from mcp import Client


class Agent:
    """Asks one server, and writes down what it asked and answered."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.lines: list[str] = []

    async def transcript(self) -> str:
        await self._what_is_wrong()
        await self._what_to_restart()
        await self._what_to_fix()
        return "\n".join(self.lines) + "\n"

    async def _what_is_wrong(self) -> None:
        self._say("user", "What is wrong?")
        status = await self._call("fleet_status")
        found = [each async for each in self._every("findings", "list_findings", severity="critical")]
        self._answer(status["headline"], status["lead"])
        for each in found:
            (whole,) = (await self._call("get_finding", id=each["id"]))["findings"]
            names = ", ".join(replica["name"] for replica in whole["replicas"])
            self._answer(f"{each['rule']} in {', '.join(each['pools'])}: {each['sentence']} ({names})")
        self._answer(*(f"{each['name']} is {each['state']}: {each['reason']['detail']}" for each in status["not_up"]))

    async def _what_to_restart(self) -> None:
        self._say("user", "What has to be restarted?")
        plan = await self._call("fix_plan")
        self._answer(f"{plan['headline']}: {', '.join(plan['restarts'])}")

    async def _what_to_fix(self) -> None:
        self._say("user", "What would you change?")
        async for cause in self._every("causes", "fix_plan"):
            steps = [] if cause["fixes"] else cause["remedies"]
            self._answer(f"{cause['title']} ({cause['severity']})")
            self._answer(*(f"   {each}" for each in [*cause["sentences"], *steps]))

    async def _call(self, name: str, **asked: Any) -> dict[str, Any]:
        result = await self._client.call_tool(name, asked)
        assert not result.is_error, result.content
        text = getattr(result.content[0], "text", "")
        assert json.loads(text) == result.structured_content
        self._say("tool", f"{name} {json.dumps(asked)}: {len(text.encode()):,} bytes")
        found: dict[str, Any] = json.loads(text)
        return found

    async def _every(self, key: str, name: str, **asked: Any) -> AsyncIterator[dict[str, Any]]:
        """Yield the rows of all pages."""
        cursor: str | None = None
        while True:
            page = await self._call(name, **asked, **({"cursor": cursor} if cursor else {}))
            for row in page[key]:
                yield row
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def _answer(self, *lines: str) -> None:
        for line in lines:
            self._say("agent", line)

    def _say(self, who: str, line: str) -> None:
        self.lines.append(f"{who}> {line}")

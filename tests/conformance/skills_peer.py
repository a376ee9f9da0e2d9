"""A server with skills (SEP-2640) on FastMCP, which has `skills/list` and `skills/get`, and no directories. Those are
added here, from the same files.

Arguments: the port.
"""

import sys
from pathlib import Path
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.extensions import MethodBinding
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ListResourcesResult, RequestParams, Resource

FOLDER = Path(__file__).resolve().parent / "skills"
SCHEME = "skill://"


class ReadDirectoryParams(RequestParams):
    """Parameters of `resources/directory/read`."""

    uri: str
    cursor: str | None = None


class WithDirectories(SkillsExtension):
    """FastMCP's extension, with `directoryRead`."""

    def settings(self) -> dict[str, Any]:
        return {"directoryRead": True}

    def methods(self) -> list[MethodBinding]:
        directories = MethodBinding("resources/directory/read", ReadDirectoryParams, self._read_directory)
        return [*super().methods(), directories]

    async def _read_directory(self, _context: Any, params: ReadDirectoryParams) -> ListResourcesResult:
        folder = (FOLDER / params.uri.removeprefix(SCHEME)).resolve()
        if not (params.uri.startswith(SCHEME) and folder.is_dir() and FOLDER in folder.parents):
            raise MCPError(code=INVALID_PARAMS, message=f"{params.uri} is not a directory resource")
        children = [
            Resource(
                uri=f"{params.uri}/{child.name}",
                name=child.name,
                mime_type="inode/directory" if child.is_dir() else "text/markdown",
            )
            for child in sorted(folder.iterdir())
        ]
        return ListResourcesResult(resources=children)


def main() -> None:
    server = FastMCP("skills")
    provider = SkillsDirectoryProvider(FOLDER, supporting_files="resources", experimental_skills=True)
    server.add_provider(provider)
    server.add_extension(WithDirectories(providers=[provider]))
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)


if __name__ == "__main__":
    main()

"""The tool type `acme:weather`: a forecast, from a table that stands for a service."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bascule.plugin import Declaration, ExecutionContext, GatewayTool, ToolError, ToolOptions

FORECASTS = {"oslo": (4, 2, -1), "paris": (12, 14, 13), "tokyo": (19, 18, 21)}  # Celsius


class Options(ToolOptions, frozen=True):
    units: Literal["celsius", "fahrenheit"] = "celsius"


class Forecast(Declaration):
    days: Annotated[int, Meta(ge=1, le=3)] = 3


class Question(msgspec.Struct):
    city: Annotated[str, Meta(description="A city's name, such as Paris", min_length=1)]


class WeatherTool(GatewayTool[Question, Options, Forecast]):
    """The temperature of the days to come, in a city."""

    type = "acme:weather"
    timeout = 5
    parallel = True

    async def run(
        self, arguments: Question, declared: Forecast, context: ExecutionContext
    ) -> object:
        days = FORECASTS.get(arguments.city.strip().lower())
        if days is None:
            raise ToolError(f"There is no forecast for {arguments.city}.", code="unknown_city")
        celsius = days[: declared.days]
        warm = [t * 9 / 5 + 32 for t in celsius] if self.options.units == "fahrenheit" else celsius
        return {"city": arguments.city, "units": self.options.units, "temperatures": warm}

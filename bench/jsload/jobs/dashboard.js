// Four charts of ECharts in one picture, drawn on no page.
import { init } from "echarts"
import { chance } from "./common.js"

const days = 400

export function run() {
  const next = chance(3)
  const walk = (start, step) => {
    let at = start
    return Array.from({ length: days }, () => Number((at += (next() - 0.49) * step).toFixed(2)))
  }
  const dates = Array.from({ length: days }, (_, i) => new Date(Date.UTC(2024, 0, 1 + i)).toISOString().slice(0, 10))
  const places = [{ left: 60, top: 60 }, { left: 680, top: 60 }, { left: 60, top: 520 }, { left: 680, top: 520 }]
  const chart = init(null, null, { renderer: "svg", ssr: true, width: 1280, height: 960 })
  chart.setOption({
    animation: false,
    title: { text: "A year and a month" },
    legend: { bottom: 0 },
    grid: places.map((p) => ({ ...p, width: 540, height: 360 })),
    xAxis: places.map((_, gridIndex) => ({ gridIndex, type: "category", data: dates, axisLabel: { rotate: 30 } })),
    yAxis: places.map((_, gridIndex) => ({ gridIndex, type: "value", scale: true, splitLine: { show: gridIndex < 2 } })),
    series: [
      { name: "stock", type: "line", areaStyle: { opacity: 0.3 }, smooth: 0.4, data: walk(500, 20), xAxisIndex: 0, yAxisIndex: 0 },
      { name: "sold", type: "bar", data: walk(80, 6), xAxisIndex: 1, yAxisIndex: 1 },
      { name: "returned", type: "scatter", symbol: "diamond", symbolSize: 6, data: walk(10, 3), xAxisIndex: 2, yAxisIndex: 2 },
      { name: "price", type: "line", step: "middle", data: walk(20, 1), xAxisIndex: 3, yAxisIndex: 3,
        markLine: { data: [{ type: "average", name: "mean" }, { type: "max", name: "highest" }] } },
    ],
  })
  const picture = chart.renderToSVGString()
  chart.dispose()
  return picture.replace(/-?\d+\.\d+/g, (n) => Number(n).toFixed(3))
}

// Which shipped orders are late, where are they, and who was told?
interface Order { id: string; customer: string; total: number; shipment: string }
interface Shipment { id: string; carrier: string; to: string; due: string; late: boolean }
interface Tracked { id: string; position: string; eta: string }

const { orders } = (await MCP.shipments.searchOrders({ status: 'shipped' })).structuredContent as { orders: Order[] }

// Independent calls run at once.
const shipments = await Promise.all(
  orders.map(async (o) => (await MCP.shipments.getShipment({ id: o.shipment })).structuredContent as Shipment),
)
const late = orders
  .map((order, i) => ({ order, shipment: shipments[i] }))
  .filter(({ shipment }) => shipment.late)
text(`${late.length} of ${orders.length} shipped orders are late`)

// The carrier is slow: here the cell is suspended, a few kilobytes of it are
// kept, and it goes on in whatever worker is free when the answers are there.
const tracked = await Promise.all(
  late.map(async ({ shipment }) => (await MCP.shipments.track({ id: shipment.id })).structuredContent as Tracked),
)

const report = late.map(({ order, shipment }, i) => ({
  order: order.id,
  customer: order.customer,
  carrier: shipment.carrier,
  due: shipment.due,
  now: tracked[i].position,
  eta: tracked[i].eta,
}))
await Promise.all(
  report.map((r) => MCP.shipments.notify({ customer: r.customer, message: `Order ${r.order} is at ${r.now}, expected ${r.eta}.` })),
)
return { late: report, value: late.reduce((sum, { order }) => sum + order.total, 0) }

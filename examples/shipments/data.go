package main

// order is one order of the shop.
type order struct {
	ID       string   `json:"id"`
	Customer string   `json:"customer"`
	Status   string   `json:"status"`
	Total    float64  `json:"total"`
	Items    []string `json:"items"`
	Shipment string   `json:"shipment"`
}

// shipment is what the carrier was given. What only the carrier knows is
// shown by track.
type shipment struct {
	ID      string  `json:"id"`
	Carrier string  `json:"carrier"`
	Weight  float64 `json:"weightKg"`
	To      string  `json:"to"`
	Due     string  `json:"due"`
	Late    bool    `json:"late"`

	position, eta string
}

func orders() []order {
	return []order{
		{"O-17", "Amina", "shipped", 129.90, []string{"lamp", "bulbs"}, "S-1001"},
		{"O-18", "Bruno", "shipped", 54.00, []string{"kettle"}, "S-1002"},
		{"O-19", "Amina", "closed", 18.50, []string{"mugs"}, "S-0990"},
		{"O-20", "Chloe", "shipped", 310.00, []string{"desk"}, "S-1003"},
		{"O-21", "Dawit", "open", 75.25, []string{"chair"}, ""},
	}
}

func shipments() []shipment {
	return []shipment{
		{"S-0990", "Northway", 1.2, "Turin", "2026-11-12", false, "delivered", "2026-11-12"},
		{"S-1001", "Northway", 3.4, "Turin", "2026-11-27", true, "Basel, customs", "2026-12-02"},
		{"S-1002", "Swift", 1.9, "Porto", "2026-12-01", false, "Lyon", "2026-12-01"},
		{"S-1003", "Northway", 28.0, "Lille", "2026-11-28", true, "Ghent, depot", "2026-12-01"},
	}
}

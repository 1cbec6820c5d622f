package client

import "math"

// sizeOf is a page's size as the service takes it; it bounds it itself.
func sizeOf(pageSize int) uint32 { return uint32(min(max(pageSize, 0), math.MaxInt32)) }

// pages walks a list: fetch gives the rows of the page that a token names ("" the first one) and the next page's token
// ("": there is none), and is called when the rows before are used up.
func pages[Row, Item any](fetch func(token string) ([]Row, string, error), itemOf func(Row) Item) func(yield func(Item, error) bool) {
	return func(yield func(Item, error) bool) {
		for token := ""; ; {
			rows, next, err := fetch(token)
			if err != nil {
				var none Item
				yield(none, err)
				return
			}
			for _, row := range rows {
				if !yield(itemOf(row), nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}

// all gathers what a walk gives.
func all[Item any](walk func(yield func(Item, error) bool)) ([]Item, error) {
	found := []Item{}
	var failure error
	walk(func(item Item, err error) bool {
		if err != nil {
			found, failure = nil, err
			return false
		}
		found = append(found, item)
		return true
	})
	return found, failure
}

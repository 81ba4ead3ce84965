// Package egress decides where a request that a stranger worded may go, and
// connects there and nowhere else. URLs have one spelling each, every address
// that a name resolves to is judged, and the connection goes to an address that
// was judged: no name is resolved a second time.
//
// It knows nothing of tools or sessions: agent.HTTPFetch stands on it.
package egress

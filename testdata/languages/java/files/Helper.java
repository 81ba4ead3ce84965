class Helper {
	String name() {
		return "helper";
	}
}

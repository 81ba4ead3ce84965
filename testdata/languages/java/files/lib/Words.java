package lib;

public final class Words {
	private Words() {}

	public static int count(String s) {
		return s.split(" ").length;
	}
}

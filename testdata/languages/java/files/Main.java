import lib.Words;

public class Main {
	public static void main(String[] args) throws Exception {
		System.out.println(Words.count("a glove in a box") + " " + new Helper().name() + " " + Main.class.getClassLoader().getResource("Helper.class").getPath());
	}
}

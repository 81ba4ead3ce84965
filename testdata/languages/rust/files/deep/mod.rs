pub mod below;

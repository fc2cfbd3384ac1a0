"""`servable accept`: the product proven in an account of yours, in steps that leave nothing behind."""
